"""What is wrong with an answer that is kept all the same: `fetches.oddities` holds these names."""

from enum import StrEnum


class Oddity(StrEnum):
    # the head
    LEADING_BYTES = "leading_bytes"
    STATUS_LINE = "status_line"
    NO_REASON = "no_reason"
    UNKNOWN_STATUS = "unknown_status"
    BARE_LF = "bare_lf"
    FOLDED_HEADER = "folded_header"
    SPACE_BEFORE_COLON = "space_before_colon"
    JUNK_HEADER = "junk_header"
    SEVERAL_LENGTHS = "several_lengths"
    BAD_LENGTH = "bad_length"
    LENGTH_AND_CHUNKS = "length_and_chunks"
    SEVERAL_TYPES = "several_types"
    SEVERAL_LOCATIONS = "several_locations"
    RAW_LOCATION = "raw_location"
    ATTACHMENT = "attachment"
    UNASKED_RANGE = "unasked_range"
    # the body
    SHORT_BODY = "short_body"
    CUT_CHUNKS = "cut_chunks"
    RESET_AT_END = "reset_at_end"
    LONG_BODY = "long_body"
    FORBIDDEN_BODY = "forbidden_body"
    # its encoding
    CUT_ENCODING = "cut_encoding"
    FALSE_ENCODING = "false_encoding"
    UNLABELLED_ENCODING = "unlabelled_encoding"
    UNKNOWN_ENCODING = "unknown_encoding"
    STACKED_ENCODING = "stacked_encoding"


MEANINGS = {
    Oddity.LEADING_BYTES: "A few bytes stood before the status line.",
    Oddity.STATUS_LINE: "The status line was none by the standard, but its status could be read.",
    Oddity.NO_REASON: "The status line had no reason phrase.",
    Oddity.UNKNOWN_STATUS: "The status lies outside 100 to 599.",
    Oddity.BARE_LF: "Header lines ended in LF without CR.",
    Oddity.FOLDED_HEADER: "A header value went on in the next line (obsolete folding).",
    Oddity.SPACE_BEFORE_COLON: "White space stood between a header's name and its colon.",
    Oddity.JUNK_HEADER: "A header line was none, or held control bytes; it was dropped or cleaned.",
    Oddity.SEVERAL_LENGTHS: "Several Content-Length values; the first counts.",
    Oddity.BAD_LENGTH: "A Content-Length that is no number; the body was read until the connection's end.",
    Oddity.LENGTH_AND_CHUNKS: "Content-Length beside Transfer-Encoding; the chunks count.",
    Oddity.SEVERAL_TYPES: "Several Content-Type headers; the last counts.",
    Oddity.SEVERAL_LOCATIONS: "Several Location headers; the first counts.",
    Oddity.RAW_LOCATION: "Location held bytes beyond ASCII, or spaces; they were percent-encoded.",
    Oddity.ATTACHMENT: "Content-Disposition offers the body as a file to save.",
    Oddity.UNASKED_RANGE: "A 206 or Content-Range although no range was asked for.",
    Oddity.SHORT_BODY: "The connection ended before Content-Length was reached; what came is kept.",
    Oddity.CUT_CHUNKS: "The connection ended before the last chunk; what came is kept.",
    Oddity.RESET_AT_END: "A body without a length ended with a reset.",
    Oddity.LONG_BODY: "More bytes came than Content-Length said; the rest was dropped.",
    Oddity.FORBIDDEN_BODY: "A 204 or 304 had a body; it was dropped.",
    Oddity.CUT_ENCODING: "The compressed body was cut; what could be read is kept.",
    Oddity.FALSE_ENCODING: "Content-Encoding was wrong; the body was taken as it is.",
    Oddity.UNLABELLED_ENCODING: "The body was gzip without a Content-Encoding; it was inflated.",
    Oddity.UNKNOWN_ENCODING: "Content-Encoding named none that is known; the body was plain.",
    Oddity.STACKED_ENCODING: "The body was encoded more than once.",
}
"""One sentence each, for the manual."""
