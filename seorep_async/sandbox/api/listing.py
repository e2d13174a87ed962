"""Lists of records: filtered, ordered, cut into pages."""

from collections.abc import Callable, Hashable, Sequence

from attrs import frozen

from seorep_async.sandbox.api.request import ApiRequest, Field, Fields, choice, direction, search
from seorep_async.sandbox.api.service import LIMIT, PAGE, ApiResponse, Record, Service, as_json, in_order, matches


@frozen
class RecordList:
    """The list of one kind of record.

    Attributes:
        name: identifies this list.
        search: the field with the string to search for.
        order: the field that names the record's field to sort by.
        direction: the field with the sort direction.
        searched: the fields of a record of which one must contain the string.
    """

    name: str
    search: Field[str]
    order: Field[str | None]
    direction: Field[bool]
    searched: tuple[str, ...]

    @property
    def fields(self) -> Fields:
        """The fields of its requests."""
        return self.search, PAGE, LIMIT, self.order, self.direction

    def respond(
        self,
        service: Service,
        request: ApiRequest,
        ids: Callable[[], Sequence[int]],
        record: Callable[[int], Record],
        *,
        shown: Callable[[int], Record] | None = None,
        only: Callable[[Record], bool] | None = None,
        question: Hashable = None,
    ) -> ApiResponse:
        """Return one page.

        Args:
            ids: returns the ids of all records, oldest first.
            shown: returns a record's form in the list, if not whole.
            only: selects among the records that contain the string.
            question: everything that `ids` and `only` depend on.
        """
        page = service.page(request)
        wanted, order, descending = request[self.search], request[self.order], request[self.direction]
        asked = (self.name, question, service.account.writes, wanted, order, descending)
        chosen = service.selections.get(asked)
        if chosen is None:
            chosen = ids()
            if wanted:
                chosen = [id_ for id_ in chosen if any(matches(record(id_)[name], wanted) for name in self.searched)]
            if only:
                chosen = [id_ for id_ in chosen if only(record(id_))]
            if order or descending:
                chosen = in_order(chosen, lambda id_: record(id_)[order or "id"], descending)
            service.selections.store(asked, chosen)
        metadata = {"total_pages": page.count(len(chosen)), "total_records": len(chosen)}
        return as_json({"metadata": metadata, "data": [*map(shown or record, page.cut(chosen))]})


def listing(name: str, orders: Sequence[str], *searched: str) -> RecordList:
    """Return a list with the field names of campaigns, users and keywords."""
    return RecordList(
        name=name,
        search=search("filter"),
        order=choice("order_by", orders),
        direction=direction("order_direction"),
        searched=searched,
    )
