"""Random programs of collective calls, transfers and groups, whose results every rank computes alone.

All ranks of a job draw the same random numbers, whether they are members of the group of a call or not, and none has results beyond
what the types hold exactly.
"""

import random

import torch
import torch.distributed as dist

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
OPS = {
    dist.ReduceOp.SUM: lambda a, b: a + b,
    dist.ReduceOp.PRODUCT: lambda a, b: a * b,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
}


class Program:
    """A program of a number of calls on tensors of a device."""

    def __init__(self, device, seed, num_calls):
        self.device, self.seed, self.num_calls = device, seed, num_calls
        self.on_device = device.type == "cuda"
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.random = random.Random(seed)
        # Ranks may wait for works in different orders, and differ in whether inputs are in outputs.
        self.order_of_waits = random.Random(31 * seed + self.rank)
        self.is_in_place = random.Random(37 * seed + self.rank)
        self.groups = [(None, list(range(self.size)))]
        self.pending = []
        self.log = []

    def values(self, rank, shape, dtype):
        """Returns the values of a rank in this call."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + len(self.log) * 97 + rank)
        return torch.randint(1, 4, shape, generator=generator).to(dtype)

    def to(self, tensor):
        """Returns a tensor of the device with the values of one of the CPU, in the layout of this call."""
        layout = self.layout
        if layout == "part":
            whole = torch.full((tensor.numel() + 7,), 0, dtype=tensor.dtype).to(self.device)
            part = whole[3 : 3 + tensor.numel()].view(tensor.shape)
            part.copy_(tensor)
            return part
        if layout == "strided" and not self.on_device and tensor.dim() >= 1:
            whole = torch.zeros(tuple(tensor.shape) + (2,), dtype=tensor.dtype)
            part = whole[..., 1]
            part.copy_(tensor)
            return part
        return tensor.clone().to(self.device)

    def blank(self, shape, dtype):
        return self.to(torch.full(shape, 9, dtype=dtype))

    def check(self, found, expected, what):
        found = found.detach().cpu()
        if found.shape != expected.shape or found.dtype != expected.dtype or not torch.equal(found, expected):
            begins = f"expected {expected.flatten()[:8]}, found {found.flatten()[:8]}"
            last = "\n".join(self.log[-6:])
            raise AssertionError(f"seed {self.seed}, rank {self.rank}, {what}: {begins}\n{last}")

    def end(self, work, checks):
        """Checks the results of a call, those of one that has returned a work after a wait for it."""
        if work is None:
            for found, expected, what in checks:
                self.check(found, expected, what)
        else:
            self.pending.append((work, checks))

    def wait(self, most):
        """Waits until at most this number of works is left."""
        while len(self.pending) > most:
            at = self.order_of_waits.randrange(len(self.pending))
            work, checks = self.pending.pop(at)
            work.wait()
            for found, expected, what in checks:
                self.check(found, expected, what)

    def shape(self):
        kind = self.random.randrange(10)
        if kind == 0:
            return ()
        if kind == 1:
            return (0,)
        if kind == 2:
            return (self.random.randrange(1, 5), self.random.randrange(1, 5), self.random.randrange(1, 4))
        if kind == 3:
            return (self.random.randrange(10_000, 300_000),)
        return (self.random.choice([1, 2, 3, 7, 8, 64, 100, 513, 1024, 4099]),)

    def run(self):
        names = [name for name in dir(self) if name.startswith("call_")]
        for number in range(self.num_calls):
            name = self.random.choice(names)
            self.layout = self.random.choice(["plain", "plain", "part", "strided"])
            self.dtype = self.random.choice(TYPES)
            self.is_async = self.random.random() < 0.4
            self.group, self.ranks = self.random.choice(self.groups)
            self.log.append(f"call {number} {name} {self.layout} {self.dtype} async {self.is_async} of {self.ranks}")
            getattr(self, name)()
            self.wait(3)
        self.wait(0)
        for group, ranks in self.groups[1:]:
            if self.rank in ranks:
                dist.destroy_process_group(group)

    def member(self):
        return self.rank in self.ranks

    def call_new_group(self):
        if len(self.groups) > 4:
            return
        ranks = sorted(self.random.sample(range(self.size), self.random.randrange(1, self.size + 1)))
        self.wait(0)
        self.groups.append((dist.new_group(ranks), ranks))

    def call_all_reduce(self):
        shape, op = self.shape(), self.random.choice(list(OPS))
        if not self.member():
            return
        of_all = [self.values(r, shape, self.dtype) for r in self.ranks]
        expected = of_all[0]
        for other in of_all[1:]:
            expected = OPS[op](expected, other)
        tensor = self.to(self.values(self.rank, shape, self.dtype))
        work = dist.all_reduce(tensor, op, group=self.group, async_op=self.is_async)
        self.end(work, [(tensor, expected, f"all_reduce {op} {shape}")])

    def call_reduce(self):
        shape, op, root = self.shape(), self.random.choice(list(OPS)), self.random.choice(self.ranks)
        if not self.member():
            return
        expected = self.values(self.ranks[0], shape, self.dtype)
        for r in self.ranks[1:]:
            expected = OPS[op](expected, self.values(r, shape, self.dtype))
        tensor = self.to(self.values(self.rank, shape, self.dtype))
        work = dist.reduce(tensor, root, op, group=self.group, async_op=self.is_async)
        self.end(work, [(tensor, expected, f"reduce {op} {shape} {root}")] if self.rank == root else [])

    def call_broadcast(self):
        shape, root = self.shape(), self.random.choice(self.ranks)
        if not self.member():
            return
        tensor = self.to(self.values(self.rank, shape, self.dtype))
        work = dist.broadcast(tensor, root, group=self.group, async_op=self.is_async)
        self.end(work, [(tensor, self.values(root, shape, self.dtype), f"broadcast {shape} {root}")])

    def call_all_gather(self):
        shape = self.shape()
        if not self.member():
            return
        outputs = [self.blank(shape, self.dtype) for _ in self.ranks]
        work = dist.all_gather(outputs, self.to(self.values(self.rank, shape, self.dtype)), group=self.group, async_op=self.is_async)
        self.end(work, [(output, self.values(r, shape, self.dtype), f"all_gather {shape}") for r, output in zip(self.ranks, outputs)])

    def call_all_gather_into_tensor(self):
        shape, stacked = self.shape(), self.random.random() < 0.5
        self.layout = "plain" if self.layout == "strided" else self.layout
        if not self.member() or not shape:
            return
        size = len(self.ranks)
        out = self.blank((size,) + shape if stacked else (size * shape[0],) + shape[1:], self.dtype)
        own = self.to(self.values(self.rank, shape, self.dtype))
        if self.is_in_place.random() < 0.4:
            own = out.view((size,) + shape)[self.ranks.index(self.rank)].copy_(own)
        work = dist.all_gather_into_tensor(out, own, group=self.group, async_op=self.is_async)
        parts = [self.values(r, shape, self.dtype) for r in self.ranks]
        self.end(work, [(out, torch.stack(parts) if stacked else torch.cat(parts), f"all_gather_into_tensor {shape}")])

    def call_gather(self):
        shape, root = self.shape(), self.random.choice(self.ranks)
        if not self.member():
            return
        outputs = [self.blank(shape, self.dtype) for _ in self.ranks] if self.rank == root else None
        work = dist.gather(self.to(self.values(self.rank, shape, self.dtype)), outputs, root, group=self.group, async_op=self.is_async)
        self.end(work, [(o, self.values(r, shape, self.dtype), f"gather {shape}") for r, o in zip(self.ranks, outputs or [])])

    def call_scatter(self):
        shape, root = self.shape(), self.random.choice(self.ranks)
        if not self.member():
            return
        of = [self.values(root * 10 + r, shape, self.dtype) for r in self.ranks]
        out = self.blank(shape, self.dtype)
        work = dist.scatter(out, [self.to(t) for t in of] if self.rank == root else None, root, group=self.group, async_op=self.is_async)
        self.end(work, [(out, of[self.ranks.index(self.rank)], f"scatter {shape} {root}")])

    def call_reduce_scatter(self):
        shape, op = self.shape(), self.random.choice(list(OPS))
        if not self.member():
            return
        size, own = len(self.ranks), self.ranks.index(self.rank)
        inputs = [self.to(self.values(self.rank * 10 + p, shape, self.dtype)) for p in range(size)]
        out = self.blank(shape, self.dtype)
        work = dist.reduce_scatter(out, inputs, op, group=self.group, async_op=self.is_async)
        expected = self.values(self.ranks[0] * 10 + own, shape, self.dtype)
        for r in self.ranks[1:]:
            expected = OPS[op](expected, self.values(r * 10 + own, shape, self.dtype))
        self.end(work, [(out, expected, f"reduce_scatter {op} {shape}")])

    def call_reduce_scatter_tensor(self):
        shape, op = self.shape(), self.random.choice(list(OPS))
        self.layout = "plain" if self.layout == "strided" else self.layout
        if not self.member() or not shape:
            return
        size, own = len(self.ranks), self.ranks.index(self.rank)
        whole = lambda r: self.values(r, (size * shape[0],) + shape[1:], self.dtype)
        out = self.blank(shape, self.dtype)
        work = dist.reduce_scatter_tensor(out, self.to(whole(self.rank)), op, group=self.group, async_op=self.is_async)
        expected = whole(self.ranks[0])
        for r in self.ranks[1:]:
            expected = OPS[op](expected, whole(r))
        self.end(work, [(out, expected[own * shape[0] : (own + 1) * shape[0]], f"reduce_scatter_tensor {op} {shape}")])

    def call_all_to_all(self):
        lens = {(a, b): self.random.choice([0, 1, 5, 100, 3000]) for a in self.ranks for b in self.ranks}
        if not self.member():
            return
        inputs = [self.to(self.values(self.rank * 10 + r, (lens[self.rank, r],), self.dtype)) for r in self.ranks]
        outputs = [self.blank((lens[r, self.rank],), self.dtype) for r in self.ranks]
        work = dist.all_to_all(outputs, inputs, group=self.group, async_op=self.is_async)
        self.end(work, [(o, self.values(r * 10 + self.rank, (lens[r, self.rank],), self.dtype), "all_to_all") for r, o in zip(self.ranks, outputs)])

    def call_all_to_all_single(self):
        lens = {(a, b): self.random.choice([0, 1, 5, 100, 3000]) for a in self.ranks for b in self.ranks}
        equal, length, width = self.random.random() < 0.5, self.random.choice([0, 1, 17, 4000]), self.random.choice([(), (3,)])
        self.layout = "plain" if self.layout == "strided" else self.layout
        if not self.member():
            return
        part = lambda a, b: self.values(a * 10 + b, ((length if equal else lens[a, b]),) + width, self.dtype)
        source = self.to(torch.cat([part(self.rank, r) for r in self.ranks]))
        expected = torch.cat([part(r, self.rank) for r in self.ranks])
        out = self.blank(tuple(expected.shape), self.dtype)
        if equal and dist.get_backend() == "mscclpp" and self.is_in_place.random() < 0.4:
            out = source
        splits = () if equal else ([lens[r, self.rank] for r in self.ranks], [lens[self.rank, r] for r in self.ranks])
        work = dist.all_to_all_single(out, source, *splits, group=self.group, async_op=self.is_async)
        self.end(work, [(out, expected, f"all_to_all_single equal {equal}")])

    def call_send_recv(self):
        shape, (a, b) = self.shape(), self.random.sample(range(self.size), 2)
        tag = 0 if self.on_device else self.random.randrange(3)
        if self.rank == a:
            dist.send(self.to(self.values(a, shape, self.dtype)), b, tag=tag)
        if self.rank == b:
            out = self.blank(shape, self.dtype)
            dist.recv(out, a, tag=tag)
            self.check(out, self.values(a, shape, self.dtype), f"recv {shape}")

    def call_batch(self):
        edges = [tuple(self.random.sample(self.ranks, 2)) for _ in range(self.random.randrange(1, 6))] if len(self.ranks) > 1 else []
        shapes = [self.shape() for _ in edges]
        if not self.member():
            return
        ops, checks = [], []
        for k, (a, b) in enumerate(edges):
            if self.rank == a:
                ops.append(dist.P2POp(dist.isend, self.to(self.values(a * 10 + k, shapes[k], self.dtype)), b, group=self.group))
            if self.rank == b:
                out = self.blank(shapes[k], self.dtype)
                ops.append(dist.P2POp(dist.irecv, out, a, group=self.group))
                checks.append((out, self.values(a * 10 + k, shapes[k], self.dtype), f"batch {edges} {k}"))
        if ops:
            for work in dist.batch_isend_irecv(ops):
                work.wait()
        for found, expected, what in checks:
            self.check(found, expected, what)

    def call_isend_irecv(self):
        shape, (a, b) = self.shape(), self.random.sample(range(self.size), 2)
        if self.rank == a:
            self.end(dist.isend(self.to(self.values(a, shape, self.dtype)), b), [])
        if self.rank == b:
            out = self.blank(shape, self.dtype)
            self.end(dist.irecv(out, a), [(out, self.values(a, shape, self.dtype), f"irecv {shape}")])

    def call_barrier(self):
        if self.member():
            self.end(dist.barrier(group=self.group, async_op=self.is_async), [])

    def call_objects(self):
        kind, root = self.random.randrange(4), self.random.choice(self.ranks)
        if not self.member():
            return
        objects = {r: {"rank": r, "text": "x" * (r * 100), "call": len(self.log)} for r in range(self.size)}
        size, first = len(self.ranks), self.ranks[0]
        if kind == 0:
            found = [None] * size
            dist.all_gather_object(found, objects[self.rank], group=self.group)
            expected = [objects[r] for r in self.ranks]
        elif kind == 1:
            found = [objects[r] if self.rank == root else None for r in self.ranks]
            dist.broadcast_object_list(found, root, group=self.group)
            expected = [objects[r] for r in self.ranks]
        elif kind == 2:
            found = [None] * size if self.rank == root else None
            dist.gather_object(objects[self.rank], found, root, group=self.group)
            expected = [objects[r] for r in self.ranks] if self.rank == root else None
        else:
            found = [None]
            dist.scatter_object_list(found, [objects[r] for r in self.ranks] if self.rank == root else None, root, group=self.group)
            expected = [objects[self.rank]]
        if found != expected:
            raise AssertionError(f"seed {self.seed}, rank {self.rank}, objects {kind}: expected {expected}, found {found}")

    def call_coalesced(self):
        shapes, kind = [self.shape() for _ in range(self.random.randrange(1, 5))], self.random.randrange(2)
        self.layout = "plain"
        if not self.member():
            return
        size = len(self.ranks)
        checks = []
        device = self.device if self.on_device else None
        with dist._coalescing_manager(group=self.group, device=device, async_ops=self.is_async) as manager:
            for k, shape in enumerate(shapes):
                if kind == 0:
                    tensor = self.to(self.values(self.rank * 10 + k, shape, torch.float32))
                    expected = sum((self.values(r * 10 + k, shape, torch.float32) for r in self.ranks), torch.zeros(shape))
                    dist.all_reduce(tensor, group=self.group)
                    checks.append((tensor, expected, f"coalesced {k}"))
                elif shape:
                    out = self.blank((size * shape[0],) + shape[1:], torch.float32)
                    dist.all_gather_into_tensor(out, self.to(self.values(self.rank * 10 + k, shape, torch.float32)), group=self.group)
                    checks.append((out, torch.cat([self.values(r * 10 + k, shape, torch.float32) for r in self.ranks]), f"coalesced gather {k}"))
        if self.is_async and checks:
            manager.wait()
        for found, expected, what in checks:
            self.check(found, expected, what)


def run(device, seed, num_programs, num_calls):
    """Runs programs, with the seeds of the first rank."""
    seeds = torch.tensor([seed]).to(device)
    dist.broadcast(seeds, 0)
    first = int(seeds.cpu()[0])
    if dist.get_rank() == 0:
        print(f"seeds {first} to {first + num_programs - 1}\n", end="", flush=True)
    for number in range(num_programs):
        Program(device, first + number, num_calls).run()
