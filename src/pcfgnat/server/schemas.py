"""What goes in and out, for checking and for the documentation."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag

from pcfgnat.server.limits import (
    BETA,
    PHRASE_CHARACTERS,
    PHRASES,
    RESULTS,
    TERMS,
    TEXT_CHARACTERS,
    TEXTS,
    TOP,
    WIDTH,
)


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


Text = Annotated[str, Field(max_length=TEXT_CHARACTERS)]
Texts = Annotated[
    Annotated[Text, Tag("one")] | Annotated[list[Text], Field(min_length=1, max_length=TEXTS), Tag("many")],
    Discriminator(_one_or_many),  # one complaint instead of one for each kind
]
Phrase = Annotated[str, Field(min_length=1, max_length=PHRASE_CHARACTERS, pattern=r"\S")]
Drawing = Literal["svg", "latex"]


class WantedTerm(BaseModel):
    """A phrase of the source and the phrase that its translation must have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Phrase
    target: Phrase


class WantedConstraints(BaseModel):
    """What translations must have and must not have; phrases are whole words."""

    model_config = ConfigDict(extra="forbid", strict=True)

    require: list[Phrase] = Field(default_factory=list, max_length=PHRASES, examples=[["Gebäude"]])
    forbid: list[Phrase] = Field(default_factory=list, max_length=PHRASES)
    prefix: Literal[""] | Phrase = Field(
        "", description="start of every translation; its last word may be incomplete"
    )
    glossary: list[WantedTerm] = Field(
        default_factory=list, max_length=TERMS, description="required where the source has the term"
    )
    max_characters: int | None = Field(None, ge=1, le=TEXT_CHARACTERS)
    strict: bool = Field(False, description="whether an unsatisfiable constraint is an error")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    model: str | None = Field(
        None, max_length=100, description="one of those listed by GET /models; default: the first"
    )
    strategy: str | None = Field(
        None,
        max_length=100,
        validation_alias=AliasChoices("strategy", "decode"),  # its name until 0.1, as of those below
        description="one of the model's strategies; default: the model's",
    )
    length_penalty: float | None = Field(
        None,
        validation_alias=AliasChoices("length_penalty", "beta"),
        ge=BETA[0],
        le=BETA[1],
        allow_inf_nan=False,
        description="β of score / length^β: larger for longer translations; default: the model's",
    )
    constraints: WantedConstraints | None = Field(
        None, description="phrases to require, to forbid and to start with"
    )
    keep: bool = Field(
        True, description="whether to keep numbers, addresses, tags, emoji and unknown characters"
    )


class TranslateRequest(_Request):
    """What to translate, and how."""

    text: Texts = Field(description="one text or several", examples=["The weather is nice today."])
    results: int = Field(
        1,
        ge=1,
        le=RESULTS,
        validation_alias=AliasChoices("results", "nbest"),
        description="number of translations of each text",
    )
    split: bool = Field(
        True, description="whether sentences of a text are translated one by one; line breaks are kept"
    )
    format: Literal["text", "html"] = Field(
        "text", description="html: the text between tags is translated, and tags stay with their words"
    )
    confidence: bool = Field(False, description="whether to return the probability of each word")
    trees: bool = Field(True, description="whether to return parse trees; always with pictures")
    draw: list[Drawing] = Field(
        default_factory=list, max_length=2, description="pictures of the trees to return"
    )
    width: int = Field(960, ge=WIDTH[0], le=WIDTH[1], description="greatest width of a picture in pixels")


class ExplainRequest(_Request):
    """A text to explain."""

    text: Text = Field(examples=["The weather is nice today."])
    top: int = Field(5, ge=1, le=TOP, description="number of alternatives of every token and rule")


class Node(BaseModel):
    """A node of a parse tree: the token that it emits, and the positions of its children."""

    node: int
    token: int
    span: tuple[int, int] = Field(description="the positions that its subtree derives, the end excluded")
    left: int | None
    right: int | None
    main_chain: bool
    word: str = ""
    rule_log_prob: float | None = None
    token_log_prob: float | None = None


class Tree(BaseModel):
    """A parse tree; its nodes stand in the order of the words."""

    chain_length: int
    prefix_depth: int
    nodes: list[Node]


class Draft(BaseModel):
    """What was proposed in one round, eos included, and how many of its pieces were accepted."""

    pieces: list[str]
    accepted: int


class Verification(BaseModel):
    """How a translation was drafted by one model and verified by another."""

    rounds: int
    accepted: int = Field(description="drafted pieces that were accepted in all rounds")
    drafts: list[Draft]


class Candidate(BaseModel):
    """One way to translate a text."""

    text: str
    score: float | None = Field(description="log-probability, with the tree if there is one")
    pieces: list[str]
    tree: Tree | None = None
    forced: list[int] = Field(
        default_factory=list, description="places of the pieces that constraints require"
    )
    verification: Verification | None = Field(None, description="of models that have a verifier")
    svg: str | None = Field(None, description="the tree as a picture, if requested")
    latex: str | None = Field(None, description="the tree for LaTeX's forest package, if requested")
    passes: list[list[str]] | None = Field(None, description="the pieces after each of several passes")


class Word(BaseModel):
    """A word of a translation, and the probability that a translation of the model has it."""

    text: str
    confidence: float
    start: int = Field(description="its first piece")
    stop: int = Field(description="the piece after its last one")


class Translation(Candidate):
    """The best translation of a text; one too long for the model comes in parts."""

    source: str
    alternatives: list[Candidate] = Field(default_factory=list)
    parts: list["Translation"] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    unmet: list[str] = Field(default_factory=list, description="constraints that could not be satisfied")
    words: list[Word] = Field(default_factory=list, description="if confidence was requested")


class Timing(BaseModel):
    """Where the time went, in milliseconds, and how many texts were worked on together."""

    queue_ms: float
    model_ms: float
    total_ms: float
    batch_texts: int


class TranslateResponse(BaseModel):
    """Translations in the order of the texts, and with which settings they were made."""

    model: str
    strategy: str
    length_penalty: float
    translations: list[Translation]
    timing: Timing


class TokenChance(BaseModel):
    """A token that a node could emit."""

    token: int
    word: str
    probability: float


class RuleChance(BaseModel):
    """A pair of children that a node could take; the left one may be missing."""

    left: int | None
    right: int
    probability: float
    chosen: bool


class LatticeNode(BaseModel):
    """A node that could have been used, its best tokens and rules, and whether the translation uses it."""

    node: int
    main_chain: bool
    visited: bool
    word: str
    reach: float = Field(description="probability that a derivation uses it, over all tokens")
    tokens: list[TokenChance]
    rules: list[RuleChance]


class Lattice(BaseModel):
    """All nodes of a sentence, numbered as in its tree."""

    source: str
    text: str
    kind: str
    prefix_depth: int
    nodes: list[LatticeNode]


class ExplainResponse(BaseModel):
    """What the translation could have been made of."""

    model: str
    strategy: str
    length_penalty: float
    lattice: Lattice
    timing: Timing


class ModelCard(BaseModel):
    """The model card, by its authors; each part may be empty."""

    licence: str = ""
    data: str = ""
    limits: str = ""


class ModelFacts(BaseModel):
    """A model that requests can name."""

    name: str
    kind: str = Field(description="pcfg, dag, ctc, slots, autoregressive, hybrid or another network")
    title: str
    source: str = Field(description="code of the language that it reads, if known")
    target: str = Field(description="code of the language that it writes, if known")
    strategies: list[str]
    strategy: str = Field(description="its default strategy")
    length_penalty: float = Field(description="its default β")
    penalised_strategies: list[str] = Field(description="the strategies whose results depend on β")
    max_source_tokens: int = Field(description="longer texts are translated in pieces")
    card: ModelCard = Field(default_factory=ModelCard)


class RequestLimits(BaseModel):
    """Limits of a request."""

    text_characters: int = TEXT_CHARACTERS
    texts: int = TEXTS
    results: int = RESULTS


class Models(BaseModel):
    """All models, the default one first, and the limits for all of them."""

    models: list[ModelFacts]
    limits: RequestLimits = RequestLimits()


class Health(BaseModel):
    """The server accepts requests."""

    status: Literal["ok"]
    version: str


class Problem(BaseModel):
    """The reason of a failure."""

    detail: str
    error: str = Field(description="the same, where LibreTranslate's clients look for it")
