import { Compile, type Validator } from "typebox/compile";
import { exampleRefusal } from "../../src/api/documents/openapi-errors.ts";
import { errorHeader } from "../../src/contract/error.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { errorsOf } from "../../src/contract/operations.ts";
import type { Answer } from "./exchange.ts";
import type { FuzzRequest } from "./requests.ts";

/** Returns what is wrong with a response; undefined when nothing is. */
export function checkResponse(wanted: FuzzRequest, answer: Answer | undefined): string | undefined {
  if (answer === undefined) return mayHangUp(wanted) ? undefined : "no answer";
  // A documented failure of another server (502, 504) is checked like any other error.
  if (answer.status === 500) return "status 500";
  // Node rejects malformed bytes before they become a request: such a response has no route and no id, and closes the
  // connection.
  if (isUnparsed(answer)) return mayBeUnparsed(wanted) ? undefined : `status ${answer.status} from the parser`;
  const text = answer.body.toString();
  return (
    (isOfGateway(wanted) ? undefined : problemOfHeaders(wanted, answer)) ??
    (wanted.operation === null
      ? problemOfAny(wanted, answer, text)
      : problemOf(wanted.operation, { wanted, answer, text }))
  );
}

const mayHangUp = ({ transport, body }: FuzzRequest) =>
  transport === "cut" || transport === "lying" || (body?.length ?? 0) > 1_000_000;

const isUnparsed = ({ status, headers }: Answer) =>
  headers["x-request-id"] === undefined && [400, 408, 413, 414, 431].includes(status);

/** Invalid headers and unknown verbs. */
const mayBeUnparsed = ({ kind, transport }: FuzzRequest) =>
  kind === "odd headers" || kind === "odd path" || transport !== "whole";

/** Every response of the API carries a request id, and is not cacheable by others. */
function problemOfHeaders({ verb }: FuzzRequest, { status, headers, body }: Answer): string | undefined {
  if (headers["x-request-id"] === undefined) return "no x-request-id";
  if (headers["x-content-type-options"] !== "nosniff") return "no x-content-type-options: nosniff";
  if (headers["cache-control"] === undefined) return "no cache-control";
  if (status === 401 && headers["www-authenticate"] === undefined) return "401 without www-authenticate";
  if (status === 405 && headers["allow"] === undefined) return "405 without allow";
  if (status === 429 && !/^\d+$/.test(headers["retry-after"] ?? "")) return "429 without retry-after";
  if (status >= 300 && status < 400 && status !== 304) return `redirects to ${headers["location"]}`;
  const isEmpty = status === 204 || status === 304 || verb === "HEAD";
  if (isEmpty && body.length > 0) return `${status} with a body`;
  return undefined;
}

/** Addresses of deployments, where agents answer. */
const isOfGateway = ({ path }: FuzzRequest) => /^\/d(?:\/|$)/.test(path);

interface Exchange {
  wanted: FuzzRequest;
  answer: Answer;
  text: string;
}

interface Expected {
  operation: Operation;
  success: Validator | null;
  refusals: Map<string, { status: number; text: RegExp }>;
}

function problemOf(operation: Operation, { wanted, answer, text }: Exchange): string | undefined {
  const expected = expectedOf(operation);
  const { status, partly = status } = operation.response;
  // The protocol has errors of its own.
  if (operation.audience === "tools" && text.includes('"jsonrpc"')) return undefined;
  if (operation.response.isPage === true && answer.headers["content-type"]?.startsWith("text/html")) return undefined;
  if (operation.response.file !== undefined && answer.headers["content-type"] === operation.response.file)
    return undefined;
  if (answer.isEndless) return answer.status === status ? undefined : `an endless answer of ${answer.status}`;
  if (answer.status === status || answer.status === partly) {
    if (expected.success === null) return undefined;
    const value = parse(text);
    if (value === notJson) return "success that is no JSON";
    if (expected.success.Check(value)) return undefined;
    return `success of another shape: ${JSON.stringify(expected.success.Errors(value).slice(0, 3))}`;
  }
  if (answer.status === 304) return operation.hasEtag ? undefined : "304 without an ETag";
  return problemOfRefusal(expected, { wanted, answer, text });
}

function problemOfRefusal({ operation, refusals }: Expected, { wanted, answer, text }: Exchange): string | undefined {
  const body = parse(text);
  if (body === notJson || typeof body !== "object" || body === null)
    return `refusal that is no object: ${text.slice(0, 200)}`;
  const { detail } = body as { detail?: unknown };
  if (answer.status === 422) return problemOfItems(detail);
  if (typeof detail !== "string") return "refusal without detail";
  const refusal = refusals.get(answer.headers[errorHeader] ?? "");
  if (refusal?.status === answer.status && refusal.text.test(detail)) return undefined;
  // Broken framing has error texts of its own.
  if (wanted.kind === "odd transport" && [400, 413, 415].includes(answer.status)) return undefined;
  const code = answer.headers[errorHeader] ?? "no code";
  return `${operation.id} does not promise ${code}, ${answer.status} "${detail.slice(0, 200)}"`;
}

const parts: ReadonlySet<unknown> = new Set(["path", "query", "header", "body"]);

function problemOfItems(detail: unknown): string | undefined {
  if (!Array.isArray(detail) || detail.length === 0 || detail.length > 100) return "422 without a list of problems";
  for (const item of detail as Record<string, unknown>[]) {
    const { type, loc, msg, ctx } = item;
    const isSound =
      typeof type === "string" &&
      typeof msg === "string" &&
      msg !== "" &&
      Array.isArray(loc) &&
      parts.has(loc[0]) &&
      "input" in item;
    const isCtxSound = ctx === undefined || (typeof ctx === "object" && ctx !== null);
    if (!isSound || !isCtxSound) return `422 with an unsound problem: ${JSON.stringify(item).slice(0, 200)}`;
  }
  return undefined;
}

/**
 * Checks the response to a request that was made for no operation but may match one: JSON or nothing, a page or a file.
 */
function problemOfAny({ verb }: FuzzRequest, { status, headers }: Answer, text: string): string | undefined {
  if (text === "" || verb === "HEAD" || /^text\/|^application\/gzip$/.test(headers["content-type"] ?? ""))
    return undefined;
  const body = parse(text);
  if (body === notJson) return `no JSON: ${text.slice(0, 200)}`;
  // The protocol for tools has errors of its own.
  if (status >= 400 && !("detail" in (body as object)) && !("jsonrpc" in (body as object)))
    return "refusal without detail";
  return undefined;
}

const known = new Map<string, Expected>();

function expectedOf(operation: Operation): Expected {
  const found = known.get(operation.id);
  if (found !== undefined) return found;
  const refusals = new Map<string, { status: number; text: RegExp }>();
  for (const code of errorsOf(operation)) {
    const { status, message } = exampleRefusal(code);
    refusals.set(code, { status, text: patternOf(message) });
  }
  const { schema } = operation.response;
  const expected = { operation, success: schema === null ? null : Compile(schema), refusals };
  known.set(operation.id, expected);
  return expected;
}

/** The dots of an example stand for any text, and the request part that it names for any part. */
function patternOf(message: string): RegExp {
  const literal = message.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const anyPart = literal.replace(/^Deployment error/, "[A-Z][a-z ]+ error");
  return new RegExp(`^${anyPart.replaceAll("\\.\\.\\.", "[\\s\\S]*")}$`);
}

const notJson = Symbol("not JSON");

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return notJson;
  }
}
