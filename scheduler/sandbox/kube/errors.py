"""The API server's refusals: one exception class, and a function for each reason.

The messages are those of Kubernetes 1.36. Messages by which clients decide were measured.
"""

from __future__ import annotations

from typing import Any

TOO_LARGE = "ResourceVersionTooLarge"


class ApiError(Exception):
    """A refusal: an HTTP status code, and the Status object that is its body. Without a reason the
    body is the message as plain text.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


def unauthorized() -> ApiError:
    """The request has no token, or a wrong one."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> ApiError:
    """The request is malformed."""
    return ApiError(400, "BadRequest", message)


def path_not_found() -> ApiError:
    """There is nothing at that path."""
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", message, details={})


def no_such_group() -> ApiError:
    """No resource is served in that version of that group. A path below it is no path of the API,
    so the answer is not in the API's form either (measured on 1.36.3).
    """
    return ApiError(404, "", "404 page not found")


def not_found(resource: str, name: str, *, group: str = "") -> ApiError:
    """No object has that name."""
    return ApiError(
        404,
        "NotFound",
        f"{_qualified(resource, group)} {_quoted(name)} not found",
        details=_details(name, group, resource),
    )


def already_exists(resource: str, name: str, *, group: str = "") -> ApiError:
    """An object has that name already."""
    return ApiError(
        409,
        "AlreadyExists",
        f"{_qualified(resource, group)} {_quoted(name)} already exists",
        details=_details(name, group, resource),
    )


def conflict(resource: str, name: str, why: str, *, group: str = "") -> ApiError:
    """The object is not in the state that the caller assumed."""
    return ApiError(
        409,
        "Conflict",
        f"Operation cannot be fulfilled on {_qualified(resource, group)} {_quoted(name)}: {why}",
        details=_details(name, group, resource),
    )


def modified(resource: str, name: str, *, group: str = "") -> ApiError:
    """The given resourceVersion is not the present one."""
    why = (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    return conflict(resource, name, why, group=group)


def precondition(
    resource: str, key: tuple[str, str], field: str, *, wanted: str, found: str, group: str = ""
) -> ApiError:
    """An update or a binding is for another UID or ResourceVersion than the object's."""
    namespace, name = key
    path = (
        f"/registry/{resource}/{namespace}/{name}" if namespace else f"/registry/{resource}/{name}"
    )
    why = (
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {found}"
    )
    return conflict(resource, name, why, group=group)


def delete_precondition(
    kind: str, name: str, field: str, *, wanted: str, found: str, group: str = ""
) -> ApiError:
    """A deletion is for another UID or ResourceVersion than the object's."""
    cause = "deleted and then recreated" if field == "UID" else "modified"
    why = (
        f"the {field} in the precondition ({wanted}) does not match the {field} in record "
        f"({found}). The object might have been {cause}"
    )
    return conflict(kind, name, why, group=group)


def invalid(kind: str, name: str, causes: list[tuple[str, str]], *, group: str = "") -> ApiError:
    """The object breaks rules of its kind; `causes` are pairs of field and complaint."""
    listed = [f"{field}: {text}" for field, text in causes]
    text = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    details = _details(name, group, kind)
    details["causes"] = [
        {"reason": _cause_reason(text), "message": text, "field": field} for field, text in causes
    ]
    qualified = f"{kind}.{group}" if group else kind
    return ApiError(
        422, "Invalid", f"{qualified} {_quoted(name)} is invalid: {text}", details=details
    )


def expired(message: str, *, metadata: dict[str, Any] | None = None) -> ApiError:
    """The requested version is older than the server remembers."""
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(wanted: int, current: int) -> ApiError:
    """The requested version is newer than the present one."""
    details = {
        "causes": [{"reason": TOO_LARGE, "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiError(504, "Timeout", message, details=details)


def disruption_budget(budget: str, needed: int, healthy: int) -> ApiError:
    """A PodDisruptionBudget forbids the eviction at present."""
    message = (
        f"The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
    )
    return ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
    )


def namespace_ends(resource: str, name: str, namespace: str, *, group: str = "") -> ApiError:
    """Nobody may create anything in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    details = _details(name, group, resource)
    details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    message = f"{_qualified(resource, group)} {_quoted(name)} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, details=details)


def method_not_allowed() -> ApiError:
    """The path exists, but not with this method."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: str) -> ApiError:
    """The body is in a format that the server does not read."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{accepted}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def _cause_reason(text: str) -> str:
    known = {
        "Required value": "FieldValueRequired",
        "Forbidden": "FieldValueForbidden",
        "Unsupported value": "FieldValueNotSupported",
        "Duplicate value": "FieldValueDuplicate",
    }
    return known.get(text.partition(":")[0], "FieldValueInvalid")


def _details(name: str, group: str, resource: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def _qualified(resource: str, group: str) -> str:
    plural, slash, sub = resource.partition("/")
    return f"{plural}.{group}{slash}{sub}" if group else resource


def _quoted(name: str) -> str:
    return f'"{name}"'
