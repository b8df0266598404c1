"""TRL's GRPO on 2048, with a language model that plays through tool calls, in one file.

    pip install 'twofold[trl]'
    python grpo_2048.py --model Qwen/Qwen3-0.6B
    python grpo_2048.py --tiny                  # without a download, see `make_tiny`

Each row of the dataset is a seed. The G completions of a group play the same board, and GRPO
compares their rewards. The learning curve is printed and written to a JSON file.
"""

import argparse
import functools
import json
from pathlib import Path
from typing import Any

from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from twofold.games.game2048 import DIRECTIONS
from twofold.integrations.trl import Game2048Tools, total_reward

PROMPT = (
    "Play 2048: slide the tiles with the tool `move` until no tile can move. Equal tiles that meet "
    "merge, and merging large tiles earns the most. This is the board:"
)


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="name or folder of a model that can call tools")
    which.add_argument("--tiny", action="store_true", help="use a small random model on the CPU")
    add("--seed", type=int, default=1, help="seed of weights, sampling and the first board")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--steps", type=int, default=100, help="optimizer steps")
    add("--groups", type=int, default=4, help="boards per step")
    add("--generations", type=int, default=8, help="completions per board")
    add("--tokens", type=int, default=1024, help="maximum length of a completion with tool answers")
    add("--learning-rate", type=float, default=1e-6)
    add("--out", type=Path, default=Path("runs/grpo_2048"), help="a folder")
    return parser.parse_args(words)


def make_dataset(boards: int, first_seed: int) -> Dataset:
    """Returns a dataset with one row per board."""
    prompt = [{"role": "user", "content": PROMPT}]
    return Dataset.from_list([{"prompt": prompt, "seed": first_seed + i} for i in range(boards)])


def call_of(direction: str) -> str:
    """Returns a tool call in the format of the chat template."""
    call = json.dumps({"name": "move", "arguments": {"direction": direction}})
    return f"<tool_call>\n{call}\n</tool_call>"


def make_tiny() -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast, list[int]]:
    """Returns a randomly initialised model that can only call tools. Each call is one token.

    Returns:
        The model, its tokenizer, and the tokens that must not be sampled: all tokens except the
        four calls and the end of a turn.
    """
    calls = [call_of(direction) for direction in DIRECTIONS]
    ends = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    game = Game2048Tools()
    texts = [PROMPT, game.reset(seed=0), *(game.move(DIRECTIONS[i % 4]) for i in range(50))]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=ends, initial_alphabet=alphabet)
    tokens.train_from_iterator([qwen2_5_chat_template, *texts], trainer)
    tokens.add_tokens([AddedToken(call, normalized=False) for call in calls])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = qwen2_5_chat_template
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    sampled = {tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(calls)}
    suppressed = [token for token in range(len(tokenizer)) if token not in sampled]
    return Qwen2ForCausalLM(config), tokenizer, suppressed


def make_trainer(options: argparse.Namespace) -> GRPOTrainer:
    """Returns a trainer with the model and the boards."""
    set_seed(options.seed)
    model: Any = options.model
    tokenizer, generation = None, {}
    if options.tiny:
        model, tokenizer, suppressed = make_tiny()
        generation = {"suppress_tokens": suppressed}
    config = GRPOConfig(
        output_dir=str(options.out),
        max_steps=options.steps,
        per_device_train_batch_size=options.generations,
        gradient_accumulation_steps=options.groups,
        num_generations=options.generations,
        max_completion_length=options.tokens,
        generation_kwargs=generation,
        chat_template_kwargs={"enable_thinking": False},
        learning_rate=options.learning_rate,
        seed=options.seed,
        use_cpu=options.tiny,
        bf16=not options.tiny,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    return GRPOTrainer(
        model,
        processing_class=tokenizer,
        args=config,
        train_dataset=make_dataset(options.steps * options.groups, options.seed),
        environment_factory=functools.partial(
            Game2048Tools, reward={"merge_exponent": 0.1}, endpoint=options.endpoint
        ),
        reward_funcs=total_reward,
    )


def main() -> None:
    """Trains a model and writes its learning curve."""
    options = parse_arguments()
    trainer = make_trainer(options)
    trainer.train()
    trainer.save_model(str(options.out / "model"))
    curve = [row for row in trainer.state.log_history if "reward" in row]
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (options.out / "curve.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
