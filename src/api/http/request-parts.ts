import type { FastifyRequest } from "fastify";
import type { TSchema } from "typebox";
import { withoutCpuBounds } from "../../contract/deployments/resource-spec.ts";
import { errors, type ValidationItem } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";
import { compileValidator, type RequestPart } from "../validation/validate.ts";
import { parseJsonBody } from "./json-body.ts";

export interface RequestParts {
  params: unknown;
  query: unknown;
  body: unknown;
}

/**
 * Returns the function that parses and checks the parts of an operation's request. It reports all problems of a request
 * together: path before query before body. A body that is not JSON is reported alone, because its fields are unknown.
 * @throws ApiError 422 `invalidRequest`
 */
export function compileRequest(operation: Operation, options: BodyOptions): (request: FastifyRequest) => RequestParts {
  const readParams = compilePart(operation.params, "path");
  const readQuery = compilePart(operation.query, "query");
  const readBody = operation.body === null ? undefined : compileBody(operation, operation.body, options);
  return (request) => {
    const problems: ValidationItem[] = [];
    const params = readParams(asLists(request.params as Record<string, string>), problems);
    const query = readQuery(request.query, problems);
    const body = readBody?.(request, problems) ?? null;
    if (problems.length > 0) throw errors.invalidRequest(problems);
    return { params, query, body };
  };
}

interface BodyOptions {
  uncappedResources: boolean;
  /** Called for a body that is not JSON. */
  onMalformed: (request: FastifyRequest) => void;
}

function compilePart(schema: TSchema | null, part: RequestPart) {
  if (schema === null) return () => null;
  const validate = compileValidator(schema, part);
  return (input: unknown, found: ValidationItem[]) => {
    const { value, problems } = validate(input);
    found.push(...problems);
    return value;
  };
}

function compileBody(operation: Operation, schema: TSchema, options: BodyOptions) {
  const validate = compilePart(options.uncappedResources ? withoutCpuBounds(schema) : schema, "body");
  return (request: FastifyRequest, found: ValidationItem[]): unknown => {
    const parsed = parseJsonBody((request.body as Buffer | undefined) ?? Buffer.alloc(0));
    if ("problem" in parsed) {
      options.onMalformed(request);
      if (isJson(request.headers["content-type"])) throw errors.invalidRequest([parsed.problem]);
      found.push(notAnObject);
      return undefined;
    }
    const { value = null } = parsed;
    if (value !== null) return validate(value, found);
    if (!operation.bodyRequired) return validate({}, found);
    found.push({ type: "missing", loc: ["body"], msg: "Field required", input: null });
    return undefined;
  };
}

/** A body is parsed as JSON whatever its media type: scripts forget the header, and `curl -d` claims to send a form. */
function isJson(contentType: string | undefined): boolean {
  return contentType === undefined || /^\s*application\/(?:[^;]*\+)?json\s*(?:;|$)/i.test(contentType);
}

/** The text is not echoed, because it may contain a secret anywhere. */
const notAnObject: ValidationItem = {
  type: "model_attributes_type",
  loc: ["body"],
  msg: "Input should be a valid dictionary or object to extract fields from",
  input: "**********",
};

function asLists(params: Record<string, string>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, [value]]));
}

/** Parses `a=1&a=2` to `{a: ["1", "2"]}`, as form data: `+` is a space. */
export function parseQuery(text: string): Record<string, string[]> {
  const query: Record<string, string[]> = Object.create(null);
  if (text === "") return query;
  for (const [name, value] of new URLSearchParams(text)) {
    query[name] ??= [];
    query[name].push(value);
  }
  return query;
}
