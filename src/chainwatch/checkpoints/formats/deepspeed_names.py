"""What the names of DeepSpeed's files say: whose states they hold."""

from __future__ import annotations

from chainwatch.checkpoints.patterns import Pattern, Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Set, Tuple

    Rank = Tuple[int, int]

_MODEL = Template("mp_rank_{}_model_states.pt")
_ZERO_MODEL = (
    Template("zero_pp_rank_{}_mp_rank_{}_model_states.pt"),
    Template("zero_pp_rank_{}_mp_rank_{}model_states.pt"),
)
_OPTIM = (
    ("zero_pp_rank_", Template("{}_mp_rank_{}_optim_states.pt"), "_optim_states.pt"),
    ("bf16_zero_pp_rank_", Template("{}_mp_rank_{}_optim_states.pt"), "_optim_states.pt"),
    ("fp16_zero_pp_rank_", Template("{}_mp_rank_{}_optim_states.pt"), "_optim_states.pt"),
    ("zero_pp_rank_", Template("{}_mp_rank_{}optim_states.pt"), "optim_states.pt"),
)
"""Beginning, the rest with its numbers, ending; the last is how very old versions spelt it."""
_LAYER = Pattern(r"layer_(\d+)((?:-\w+)*)-model_states\.pt$")
"""The middle says the rank (`-model_01`), and is empty where there is no tensor parallelism."""
_EXPERT = Pattern(r"(?:layer_(\d+)_)?expert_(\d+)_mp_rank_(\d+)_model_states\.pt$")
_EXPERT_OPTIM = Pattern(r"expp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$")


class Names:
    """The files of one step, by what their names say."""

    def __init__(self, names: Iterable[str]) -> None:
        self.model: Dict[int, str] = {}
        self.zero_model: Dict[Rank, str] = {}
        self.optim: Dict[Rank, str] = {}
        self.layers: Dict[int, Set[Tuple[str]]] = {}
        self.experts: Dict[int, Set[Rank]] = {}
        self.expert_optim: Set[Rank] = set()
        self.others: List[str] = []
        """Layer, expert and expert optimizer files, and states of a name that is not known: all are examined."""
        self.optim_name = ("zero_pp_rank_", "_optim_states.pt")
        for name in names:
            if not name.endswith("_states.pt") and not name.endswith("optim_states.pt"):
                continue
            self._sort(name)

    def _sort(self, name: str) -> None:
        model = _MODEL.match(name)
        if model:
            self.model[int(model[0])] = name
            return
        if name.startswith("zero_pp_rank_"):
            for each in _ZERO_MODEL:
                ranks = each.match(name)
                if ranks:
                    self.zero_model[int(ranks[0]), int(ranks[1])] = name
                    return
        for start, rest, ending in _OPTIM:
            ranks = rest.match(name[len(start) :]) if name.startswith(start) else None
            if ranks:
                self.optim[int(ranks[0]), int(ranks[1])] = name
                self.optim_name = (start, ending)
                return
        found = _LAYER.match(name)
        if found:
            self.layers.setdefault(int(found[1]), set()).add((found[2],))
        else:
            found = _EXPERT.match(name)
            if found:
                self.experts.setdefault(int(found[1] or -1), set()).add((int(found[2]), int(found[3])))
            else:
                found = _EXPERT_OPTIM.match(name)
                if found:
                    self.expert_optim.add((int(found[1]), int(found[2])))
        self.others.append(name)

    def __bool__(self) -> bool:
        return bool(self.model or self.zero_model or self.optim or self.others)
