import pytest
import torch

from apgcn.ops.rng import EPOCH_STRIDE, GAMMA, MULTIPLIERS, RandomStream, derive_seed, dropout_scale

RATES = [0.0, 0.1, 0.5, 0.6, 0.9]


def splitmix64(start: int, number: int) -> int:
    """The published generator, in integers of any size."""
    bits = (start + number * GAMMA) % 2**64
    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        bits = ((bits ^ (bits >> shift)) * multiplier) % 2**64
    return bits ^ (bits >> 31)


def test_random_bits_are_those_of_splitmix64():
    assert splitmix64(0, 1) == 0xE220A8397B1DCDAF  # the generator's first output for seed 0, as published
    rng = RandomStream([0, 12345, 2**64 - 1])
    bits = [[number % 2**64 for number in row] for row in rng.random_bits(50).tolist()]
    assert bits == [[splitmix64(start, number) for number in range(50)] for start in (0, 12345, 2**64 - 1)]


def test_a_stream_continues_and_each_epoch_has_its_own_start():
    rng = RandomStream([3])
    assert torch.equal(torch.cat([rng.random_bits(5), rng.random_bits(7)], dim=1), RandomStream([3]).random_bits(12))
    rng.seek(2)
    assert rng.random_bits(1).item() % 2**64 == splitmix64(3, 2 * EPOCH_STRIDE)


def test_random_numbers_of_a_run_do_not_depend_on_its_batch():
    together, alone = RandomStream([1, 2, 3]), RandomStream([2])
    assert torch.equal(together.dropout_mask(4, 5, rate=0.5)[1], alone.dropout_mask(4, 5, rate=0.5)[0])
    together.select(torch.tensor([1, 2]))
    assert torch.equal(together.dropout_mask(4, 5, rate=0.3)[0], alone.dropout_mask(4, 5, rate=0.3)[0])
    assert torch.equal(together.uniform(6)[0], alone.uniform(6)[0])


@pytest.mark.parametrize("rate", RATES)
def test_dropout_masks_have_their_rate_and_keep_the_expectation(rate):
    mask = RandomStream([5]).dropout_mask(400, 500, rate=rate)
    assert ((mask == 0) | (mask == torch.tensor(dropout_scale(rate)))).all()
    rounded = 1 - 1 / dropout_scale(rate)
    assert abs(rounded - rate) <= 1 / 512
    assert abs((mask == 0).double().mean().item() - rounded) < 5 * (0.25 / mask.numel()) ** 0.5
    assert abs(mask.double().mean().item() - 1) < 0.02


def test_every_bit_of_a_mask_is_unbiased_and_uncorrelated_with_others():
    """Every bit of a random number is used, so every position of the mask is tested on its own."""
    mask = RandomStream(range(4000)).dropout_mask(124, rate=0.5) / 2  # 4000 streams x the bits of two numbers
    assert ((mask.mean(0) - 0.5).abs() < 5 * 0.5 / 4000**0.5).all()
    correlations = torch.corrcoef(mask.T) - torch.eye(124)
    assert correlations.abs().max() < 6 / 4000**0.5


def test_uniform_numbers_fill_the_unit_interval():
    numbers = RandomStream([9]).uniform(200_000)[0].double()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.005
    assert abs(numbers.var() - 1 / 12) < 0.002


def test_derived_seeds_depend_on_every_key():
    assert (
        len(
            {
                derive_seed("cora", 1, 0),
                derive_seed("cora", 0, 1),
                derive_seed("citeseer", 1, 0),
                derive_seed("cora", 10),
            }
        )
        == 4
    )
    assert derive_seed("cora", 2144199730, 0)
