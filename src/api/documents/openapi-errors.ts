import { type ApiError, type ErrorCode, errorHeader, errors } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";
import { commonErrors, refusalsOf } from "../../contract/operations.ts";

type Json = Record<string, unknown>;

/** Answers that most operations share; where the codes of a status are just these, they are referred to by this name. */
const sharedNames: Record<number, string> = {
  401: "Unauthorized",
  403: "Forbidden",
  413: "TooLarge",
  422: "Invalid",
  429: "TooManyRequests",
  503: "Unavailable",
};

const shared = byStatus([...commonErrors, "invalidRequest", "bodyTooLarge"]);

/** The parts that answers of refusals refer to. */
export function refusalComponents(operations: readonly Operation[]) {
  const codes = [...new Set(operations.flatMap(refusalsOf))].sort();
  const responses = [...shared].map(([status, found]) => [sharedNames[status], response(status, found)]);
  return {
    headers,
    responses: Object.fromEntries(responses) as Json,
    examples: Object.fromEntries(codes.map((code) => [code, { value: exampleRefusal(code).body() }])) as Json,
    schemas: errorSchemas,
  };
}

/** Answers of an operation by status, beside its success. */
export function responsesOfRefusals(operation: Operation): Json {
  const responses = [...byStatus(refusalsOf(operation))].map(([status, codes]) => {
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
    description: "Names this request in the server's log. An id the client sent in this header is kept.",
    schema: { type: "string" },
  },
  "X-Pierhead-Error": {
    description: "The code of this refusal, for programs; docs/reference/errors.md has a section on each.",
    schema: { type: "string" },
  },
  "Retry-After": { description: "Seconds to wait before the next try.", schema: { type: "integer" } },
  "Idempotency-Replayed": {
    description: "`true`: the request was done before, and this is what was answered then.",
    schema: { type: "string" },
  },
  ETag: { description: "Names this answer, for `If-None-Match` and `If-Match`.", schema: { type: "string" } },
  "WWW-Authenticate": { description: "How to send a key.", schema: { type: "string" } },
};

/** Headers of an answer, by their names in any case. */
export function headersNamed(names: readonly string[]): Json {
  const known = names.map((wanted) => {
    const name = Object.keys(headers).find((one) => one.toLowerCase() === wanted.toLowerCase());
    if (name === undefined) throw new RangeError(`the document does not describe the header ${wanted}`);
    return name;
  });
  return Object.fromEntries(known.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** A refusal with dots for what varies. Its parts are strings or lists: of the ways to call it, one fits. */
export function exampleRefusal(code: ErrorCode): ApiError {
  const make = errors[code] as (...details: unknown[]) => ApiError;
  if (code === "invalidRequest") {
    return make([{ type: "missing", loc: ["body", "source"], msg: "Field required", input: { name: "support-bot" } }]);
  }
  for (const details of [["...", "...", "..."], ["...", "...", ["..."]], ["...", ["..."]], [["..."]]]) {
    try {
      return make(...details);
    } catch {
      // A list where a string was wanted, or the other way round.
    }
  }
  throw new RangeError(`no example of the refusal ${code}`);
}

const errorSchemas = {
  Problem: {
    type: "object",
    required: ["detail"],
    properties: {
      detail: { type: "string", description: "What is wrong, for people. Known texts do not change." },
      error: { type: "string", description: "A word for programs, with the refusals that have one." },
    },
  },
  ValidationError: {
    type: "object",
    required: ["type", "loc", "msg", "input"],
    properties: {
      type: { type: "string" },
      loc: { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] } },
      msg: { type: "string" },
      input: { description: "What was sent there; secrets are masked." },
      ctx: { type: "object" },
    },
  },
  HTTPValidationError: {
    type: "object",
    required: ["detail"],
    properties: { detail: { type: "array", items: { $ref: "#/components/schemas/ValidationError" } } },
  },
};
