"""A model of our own for ElasticDL's worker: ids with an embedding, and a label that follows from the id."""

import tensorflow as tf
from elasticdl.python.data.reader.data_reader import AbstractDataReader, Metadata
from elasticdl.python.elasticdl.layers.embedding import Embedding

RECORDS = 8192
IDS = 100


def label_of(number):
    """Half of the ids are clicked on."""
    return float((number * 7919 % IDS) % 2)


class MadeUp(AbstractDataReader):
    """Records that need no file."""

    def read_records(self, task):
        for number in range(task.start, task.end):
            yield [float(number * 7919 % IDS), label_of(number)]

    def create_shards(self):
        return {"made-up": (0, RECORDS)}

    @property
    def records_output_types(self):
        return tf.float32

    @property
    def metadata(self):
        return Metadata(column_names=["id", "label"])


def custom_data_reader(data_origin, records_per_task=None, **kwargs):
    return MadeUp()


def custom_model():
    ids = tf.keras.Input(shape=(1,), dtype=tf.int64, name="id")
    vectors = tf.keras.layers.Flatten()(Embedding(4, name="clicks")(ids))
    hidden = tf.keras.layers.Dense(8, activation="relu", name="hidden")(vectors)
    return tf.keras.Model(inputs=ids, outputs=tf.keras.layers.Dense(1, name="out")(hidden))


def loss(labels, predictions):
    labels = tf.reshape(tf.cast(labels, tf.float32), [-1, 1])
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=predictions))


def optimizer(lr=0.1):
    return tf.keras.optimizers.SGD(lr)


def dataset_fn(dataset, mode, _):
    def parse(record):
        return {"id": tf.cast(record[0:1], tf.int64)}, record[1]

    return dataset.map(parse)


def eval_metrics_fn():
    return {"loss": lambda labels, outputs: loss(labels, outputs)}
