"""DeepFM in PyTorch with sparse embeddings, on one thread: argv is the file, the records of a batch, the values of an
embedding, and the hidden layers. Goes through the file twice, reading it in the loop and with everything in memory, and
prints what both took as JSON."""

import json
import resource
import sys
import time

import torch
from torch import nn

PATH, BATCH, DIM = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
HIDDEN = [int(width) for width in sys.argv[4].split("x")]
torch.set_num_threads(1)
torch.manual_seed(1)


class DeepFm(nn.Module):
    def __init__(self, rows, fields, numbers):
        super().__init__()
        self.embedding = nn.Embedding(rows, 1 + DIM, sparse=True)
        nn.init.normal_(self.embedding.weight, std=0.01)
        self.linear = nn.Linear(numbers, 1, bias=False)
        widths = [fields * DIM + numbers, *HIDDEN]
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.deep = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, numbers, keys):
        rows = self.embedding(keys)
        embeddings = rows[:, :, 1:]
        total = embeddings.sum(1)
        pairs = 0.5 * (total * total - (embeddings * embeddings).sum(1)).sum(1)
        deep = self.deep(torch.cat([embeddings.flatten(1), numbers], 1)).squeeze(1)
        return rows[:, :, 0].sum(1) + self.linear(numbers).squeeze(1) + pairs + deep


def parsed(lines):
    table = torch.tensor([[float(cell) for cell in line.split(",")] for line in lines])
    return table[:, 0], table[:, 1:NUMBERS + 1], table[:, NUMBERS + 1:].long() + OFFSETS


def from_file():
    with open(PATH) as file:
        next(file)
        lines = []
        for line in file:
            lines.append(line)
            if len(lines) == BATCH:
                yield parsed(lines)
                lines = []
        if lines:
            yield parsed(lines)


def train(batches):
    model = DeepFm(ROWS, FIELDS, NUMBERS)
    how = dict(lr=0.1, eps=1e-7, initial_accumulator_value=1e-3)
    optimizer = torch.optim.Adagrad(model.parameters(), **how)
    used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    began, cpu, records, losses = time.perf_counter(), used(), 0, []
    for labels, numbers, keys in batches:
        loss = nn.functional.binary_cross_entropy_with_logits(model(numbers, keys), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        records += len(labels)
        losses.append(loss.item())
    seconds = time.perf_counter() - began
    last = losses[-100:]
    return {
        "records_per_second": records / seconds,
        "cpu_us_per_record": (used() - cpu) * 1e6 / records,
        "loss": sum(last) / len(last),
    }


with open(PATH) as file:
    header = next(file).strip().split(",")
    NUMBERS = sum(name.startswith("n") for name in header)
    FIELDS = sum(name.startswith("c") for name in header)
    sizes = [0] * FIELDS
    for line in file:
        for field, cell in enumerate(line.split(",")[1 + NUMBERS:]):
            sizes[field] = max(sizes[field], int(cell) + 1)
ROWS = sum(sizes)
OFFSETS = torch.tensor([sum(sizes[:field]) for field in range(FIELDS)])

in_memory = list(from_file())
print(json.dumps({"reading": train(from_file()), "in_memory": train(in_memory)}))
