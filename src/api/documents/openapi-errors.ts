import { type ApiError, type ErrorCode, errorHeader, errors } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";
import { commonErrors, errorsOf } from "../../contract/operations.ts";

type Json = Record<string, unknown>;

/**
 * Names of the responses that most operations share. They are used when an operation has exactly these codes for a
 * status.
 */
const sharedNames: Record<number, string> = {
  401: "Unauthorized",
  403: "Forbidden",
  408: "TooSlow",
  413: "TooLarge",
  422: "Invalid",
  429: "TooManyRequests",
  503: "Unavailable",
};

const shared = byStatus([
  ...commonErrors,
  ...(["invalidRequest", "bodyTooLarge", "bodyTooManyValues", "bodyTooSlow"] as const),
]);

/** Returns the components that error responses refer to. */
export function refusalComponents(operations: readonly Operation[]) {
  const codes = [...new Set(operations.flatMap(errorsOf))].sort();
  const responses = [...shared].map(([status, found]) => [sharedNames[status], response(status, found)]);
  return {
    headers,
    responses: Object.fromEntries(responses) as Json,
    examples: Object.fromEntries(codes.map((code) => [code, { value: exampleRefusal(code).body() }])) as Json,
    schemas: errorSchemas,
  };
}

/** Returns the error responses of an operation by status. */
export function responsesOfRefusals(operation: Operation): Json {
  const responses = [...byStatus(errorsOf(operation))].map(([status, codes]) => {
    const isShared = shared.get(status)?.join() === codes.join();
    return [status, isShared ? { $ref: `#/components/responses/${sharedNames[status]}` } : response(status, codes)];
  });
  return Object.fromEntries(responses);
}

function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  return Map.groupBy(codes.toSorted(), (code) => exampleRefusal(code).status);
}

function response(status: number, codes: readonly ErrorCode[]): Json {
  const own = Object.keys(exampleRefusal(codes[0] as ErrorCode).headers);
  return {
    description: codes.join(", "),
    headers: headersNamed(["X-Request-Id", errorHeader, ...own]),
    content: {
      "application/json": {
        schema: { $ref: `#/components/schemas/${status === 422 ? "HTTPValidationError" : "Problem"}` },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

const headers = {
  "X-Request-Id": {
    description:
      "Id of this request in the server's log. If the client sends an id in this header, the server uses it.",
    schema: { type: "string" },
  },
  "X-Pierhead-Error": {
    description: "Code of this error, for programs. docs/reference/errors.md has a section on each code.",
    schema: { type: "string" },
  },
  "X-Pierhead-Hint": {
    description: "The header of the request that was wrong, in words, where that is known.",
    schema: { type: "string" },
  },
  "Retry-After": { description: "Seconds to wait before the next attempt.", schema: { type: "integer" } },
  "Idempotency-Replayed": {
    description: "`true` when the request has run before and this is its first response.",
    schema: { type: "string" },
  },
  ETag: { description: "Version of this response, for `If-None-Match` and `If-Match`.", schema: { type: "string" } },
  "WWW-Authenticate": { description: "How to send a key.", schema: { type: "string" } },
};

/** Returns references to these headers, in any case. */
export function headersNamed(names: readonly string[]): Json {
  const known = names.map((wanted) => {
    const name = Object.keys(headers).find((one) => one.toLowerCase() === wanted.toLowerCase());
    if (name === undefined) throw new RangeError(`the document does not describe the header ${wanted}`);
    return name;
  });
  return Object.fromEntries(known.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/**
 * Returns an example of an error with dots for its variable parts, which are strings or lists: tries until one call
 * fits.
 */
export function exampleRefusal(code: ErrorCode): ApiError {
  const make = errors[code] as (...details: unknown[]) => ApiError;
  if (code === "invalidRequest") {
    return make([{ type: "missing", loc: ["body", "source"], msg: "Field required", input: { name: "support-bot" } }]);
  }
  for (const details of [["...", "...", "..."], ["...", "...", ["..."]], ["...", ["..."]], [["..."]]]) {
    try {
      return make(...details);
    } catch {
      // A list where a string is expected, or the other way round.
    }
  }
  throw new RangeError(`no example of the refusal ${code}`);
}

const errorSchemas = {
  Problem: {
    type: "object",
    required: ["detail"],
    properties: {
      detail: { type: "string", description: "What went wrong, for people. Existing texts do not change." },
      error: { type: "string", description: "Machine-readable code, on errors that have one." },
    },
  },
  ValidationError: {
    type: "object",
    required: ["type", "loc", "msg", "input"],
    properties: {
      type: { type: "string" },
      loc: { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] } },
      msg: { type: "string" },
      input: { description: "The value that was sent. Secrets are masked." },
      ctx: { type: "object" },
    },
  },
  HTTPValidationError: {
    type: "object",
    required: ["detail"],
    properties: { detail: { type: "array", items: { $ref: "#/components/schemas/ValidationError" } } },
  },
};
