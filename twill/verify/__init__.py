"""Independent judges of answers and their evidence: rules, bounds, documents. No solver is imported."""

from twill.verify.check import check
from twill.verify.document import check_document
from twill.verify.evidence import check_result
from twill.verify.rules import channels
from twill.verify.violation import Violation

__all__ = ["Violation", "channels", "check", "check_document", "check_result"]
