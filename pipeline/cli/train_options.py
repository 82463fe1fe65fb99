"""The options of `tokenmill train`, and the training that they ask for. As in `cli.py`, nothing heavy is imported before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tokenmill.models.kinds import DEFAULT, KINDS, choose_unk, default_pretokenizer, list_options
from tokenmill.names import (
    ID_ORDERS,
    SCORES,
    TIES,
)
from tokenmill.pipeline.cli.options import (
    NORMALIZER_OPTION,
    PRETOKENIZER_OPTIONS,
    TEMPLATE_OPTIONS,
    add_options,
    choose_normalizer,
    choose_pretokenizer,
    choose_template,
)

if TYPE_CHECKING:
    from tokenmill.training.options import TrainingOptions

BPE_OPTIONS = add_options(
    click.option("--max-token-length", type=click.IntRange(min=1), metavar="N", help="No token gets longer (characters; bytes)."),
    click.option(
        "--limit-alphabet", type=click.IntRange(min=1), metavar="N", help="Only the N most frequent characters get a symbol."
    ),
    click.option("--end-of-word-suffix", metavar="TEXT", help="A symbol behind the last of every word, such as '</w>'."),
    click.option("--continuation-prefix", metavar="TEXT", help="What symbols inside a word begin with, such as '##'."),
    click.option("--byte-fallback", is_flag=True, help="Spell characters without a symbol by 256 byte tokens, not by --unk."),
)

WORDPIECE_OPTIONS = add_options(
    click.option(
        "--score",
        type=click.Choice(SCORES),
        help="Of wordpiece: which pair is merged, that of the highest count(xy) / (count(x) * count(y)), or of the highest count "
        "[default: likelihood].",
    ),
    click.option(
        "--max-word-characters",
        type=click.IntRange(min=0),
        metavar="N",
        help="Of wordpiece: longer words become the unk token, and are counted; 0 for no limit [default: 100].",
    ),
)

TRAINING_OPTIONS = add_options(
    click.option(
        "--model",
        type=click.Choice(list(KINDS)),
        help=" ".join(f"{kind.name}: {kind.help}." for kind in KINDS.values()) + f" [default: {DEFAULT}]",
    ),
    PRETOKENIZER_OPTIONS,
    NORMALIZER_OPTION,
    click.option("--vocab-size", type=int, metavar="N", help="Stop at N tokens: special tokens, alphabet and merges."),
    click.option("--merges", type=int, metavar="N", help="Stop at N merge rules."),
    click.option(
        "--ties",
        type=click.Choice(TIES),
        default="smallest",
        show_default=True,
        help="Which of equally frequent pairs goes first: the smallest ids, or the one seen first in the corpus.",
    ),
    click.option(
        "--ids",
        type=click.Choice(ID_ORDERS),
        default="rank",
        show_default=True,
        help="rank: special tokens, alphabet, merges in order. sorted: all tokens by code point. codepoint (char): code points.",
    ),
    click.option("--special", multiple=True, metavar="TOKEN", help="A special token; text never makes it. Can be given again."),
    click.option(
        "--unk",
        metavar="TOKEN",
        help="The token for characters outside the alphabet (char-bpe), or for words that no tokens make up [default of "
        "wordpiece: [UNK]; '' for none].",
    ),
    click.option(
        "--min-count",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Leave pairs unmerged that occur less often.",
    ),
    TEMPLATE_OPTIONS,
    click.option("--strict", is_flag=True, help="Fail when the corpus has too few pairs for the size asked for."),
    BPE_OPTIONS,
    click.option(
        "--extend",
        metavar="FILE",
        help="Add to this tokenizer: its ids and rules stay. --vocab-size is then the size of all, --merges what is added.",
    ),
    WORDPIECE_OPTIONS,
)


def make_training(counts: str | None, options: dict[str, Any]) -> TrainingOptions:
    """What to train, from the options of the command line; `counts` is a folder of word counts, if there is one."""
    from tokenmill.encoding.templates import Template
    from tokenmill.pipeline import counts_folder, driver
    from tokenmill.text.normalizers import Normalizer
    from tokenmill.training.options import TrainingOptions

    asked, normalizer = choose_pretokenizer(options), choose_normalizer(options)
    extended = None if options["extend"] is None else driver.load_tokenizer(options["extend"])
    if extended is not None:
        asked, normalizer = asked or extended.pretokenizer, normalizer or extended.normalizer
    model = options["model"] or (DEFAULT if extended is None else extended.model.name)
    default = default_pretokenizer(model)
    return TrainingOptions(
        model=model,
        extend=extended,
        pretokenizer=(asked or default) if counts is None else counts_folder.check_pretokenizer(counts, asked),
        normalizer=(normalizer or Normalizer()) if counts is None else counts_folder.check_normalizer(counts, normalizer),
        template=choose_template(options) or Template(),
        special_tokens=options["special"],
        unk_token=options["unk"] if extended is not None else choose_unk(model, options["unk"]),
        **{name: options[name] for name in ("vocab_size", "merges", "ties", "ids", "min_count", "strict")},
        **{name: options[name] for name in list_options()},
    )
