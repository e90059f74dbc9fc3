#!/usr/bin/env bash
# The training job of the ElasticDL tutorial, "Submit Job": 2 parameter servers and 4 workers on MNIST.
#
#   IMAGE=registry.example.com/elasticdl:mnist examples/elasticdl/train.sh
#
# `elasticdl` is the original's client. Flexor's own, with the same options, is not part of the binary yet.
set -euo pipefail

: "${IMAGE:?name the image of the model zoo: IMAGE=registry.example.com/elasticdl:mnist $0}"

exec elasticdl train \
  --image_name="$IMAGE" \
  --model_zoo=model_zoo \
  --model_def=mnist_functional_api.mnist_functional_api.custom_model \
  --training_data=/data/mnist/train \
  --validation_data=/data/mnist/test \
  --num_epochs=5 \
  --master_resource_request="cpu=2,memory=2048Mi" \
  --master_resource_limit="cpu=2,memory=2048Mi" \
  --master_pod_priority=high \
  --worker_resource_request="cpu=2,memory=2048Mi" \
  --worker_resource_limit="cpu=2,memory=2048Mi" \
  --worker_pod_priority=low \
  --ps_resource_request="cpu=2,memory=2048Mi" \
  --ps_resource_limit="cpu=2,memory=2048Mi" \
  --ps_pod_priority=high \
  --minibatch_size=64 \
  --num_minibatches_per_task=64 \
  --num_ps_pods=2 \
  --num_workers=4 \
  --evaluation_steps=200 \
  --grads_to_wait=1 \
  --job_name=test-mnist \
  --log_level=INFO \
  --image_pull_policy=Always \
  --volume="mount_path=/data,claim_name=fileserver-claim" \
  --distribution_strategy=ParameterServerStrategy
