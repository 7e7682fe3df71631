import type { TSchema } from "typebox";
import { type ApiError, type ErrorCode, errors } from "../contract/error.ts";
import { requestHeadersOf } from "../contract/headers.ts";
import { keepsAnswer, type Operation } from "../contract/operation.ts";
import { commonErrors } from "../contract/operations.ts";

type Json = Record<string, unknown>;

/** Version of the API that the document describes, as the original announces it; not that of the program. */
const apiVersion = "0.1.0";

/**
 * The OpenAPI 3.1 document of the public operations. Schemas with an `$id` become components, so that generated clients
 * get types with names.
 *
 * @param prefix Path the API is served under, "" for none; becomes `servers[0].url`.
 */
export function openapiDocument(operations: readonly Operation[], prefix = ""): Json {
  const components = new Map<string, Json>();
  const shown = operations.filter(({ audience }) => audience === "public");
  const paths: Record<string, Json> = {};
  for (const operation of shown) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.verb.toLowerCase()]: describeOperation(operation, components),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Pierhead",
      version: apiVersion,
      description: "An open control plane for agent servers: builds, runs, updates and watches them.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: prefix === "" ? "/" : prefix }],
    tags: [...new Set(shown.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        ApiKey: { type: "apiKey", in: "header", name: "X-Api-Key" },
        Bearer: { type: "http", scheme: "bearer", description: "The API key, as a bearer token." },
      },
      parameters: { TenantId: tenantHeader },
      schemas: { ...Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))), ...errorSchemas },
    },
  };
}

const tenantHeader = {
  name: "X-Tenant-Id",
  in: "header",
  required: false,
  description: "Workspace to act in; needed with a key of an organization.",
  schema: { type: "string" },
};

const errorSchemas = {
  Problem: { type: "object", required: ["detail"], properties: { detail: { type: "string" } } },
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

function describeOperation(operation: Operation, components: Map<string, Json>): Json {
  const { operationId, summary, tag, response, role } = operation;
  const parameters = [
    ...parametersOf(operation.params, "path", components),
    ...parametersOf(operation.query, "query", components),
    ...parametersOf(requestHeadersOf(operation), "header", components),
    ...(role === "none" ? [] : [{ $ref: "#/components/parameters/TenantId" }]),
  ];
  const body = bodyOf(operation, components);
  return {
    operationId,
    summary,
    tags: [tag],
    ...(role === "none" ? { security: [] } : { security: [{ ApiKey: [] }, { Bearer: [] }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: {
      [response.status]: {
        description: "Done",
        ...(operation.hasEtag && { headers: etagHeader }),
        ...(response.schema !== null && { content: jsonContent(collect(response.schema, components)) }),
      },
      ...(response.partly !== undefined && {
        [response.partly]: {
          description: "Some of them failed; the body says which and why.",
          content: jsonContent(collect(response.schema as TSchema, components)),
        },
      }),
      ...(operation.hasEtag && operation.verb === "GET" && { 304: { description: "Still the answer before." } }),
      ...refusalsOf(operation),
    },
  };
}

const etagHeader = {
  ETag: { description: "Names this answer, for `If-None-Match` and `If-Match`.", schema: { type: "string" } },
};

function parametersOf(
  schema: TSchema | null,
  place: "path" | "query" | "header",
  components: Map<string, Json>,
): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, TSchema & { default?: unknown; description?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, field]) => ({
    name,
    in: place,
    required: required.includes(name) && field.default === undefined,
    ...(field.description !== undefined && { description: field.description }),
    schema: collect(field, components),
  }));
}

function bodyOf(operation: Operation, components: Map<string, Json>): Json | undefined {
  const { body, stream, bodyRequired: required } = operation;
  if (stream !== null) return { required, content: { [stream]: { schema: { type: "string", format: "binary" } } } };
  return body === null ? undefined : { required, content: jsonContent(collect(body, components)) };
}

const jsonContent = (schema: Json) => ({ "application/json": { schema } });

/** Refusals by status, each with its code of the catalogue and an example of its text. */
function refusalsOf(operation: Operation): Json {
  const inputs = [operation.params, operation.query, operation.body, requestHeadersOf(operation)];
  const hasInput = inputs.some((part) => part !== null);
  const usual = operation.role === "none" ? (["invalidRequest"] as const) : commonErrors;
  const ofHeaders: ErrorCode[] = [
    ...(keepsAnswer(operation) ? (["idempotencyKeyReused"] as const) : []),
    ...(operation.takesIfMatch ? (["changedMeanwhile"] as const) : []),
  ];
  const codes = [...operation.errors, ...ofHeaders, ...usual].filter((code) => code !== "invalidRequest" || hasInput);
  const byStatus = Map.groupBy(new Set(codes), (code) => exampleOf(code).status);
  return Object.fromEntries(
    [...byStatus].map(([status, found]) => [
      status,
      {
        description: found
          .map((code) => (status === 422 ? "The request has another shape." : `${code}: ${exampleOf(code).message}`))
          .join("\n\n"),
        content: jsonContent({ $ref: `#/components/schemas/${status === 422 ? "HTTPValidationError" : "Problem"}` }),
      },
    ]),
  );
}

/** A refusal with dots for what varies. Its parts are strings or lists: of the ways to call it, one fits. */
function exampleOf(code: ErrorCode): ApiError {
  const make = errors[code] as (...details: unknown[]) => ApiError;
  for (const details of [["...", "...", "..."], ["...", "...", ["..."]], ["...", ["..."]], [["..."]], [[]]]) {
    try {
      return make(...details);
    } catch {
      // A list where a string was wanted, or the other way round.
    }
  }
  throw new RangeError(`no example of the refusal ${code}`);
}

/** Plain JSON Schema of a contract schema; parts with an `$id` go to `components` and are referred to. */
function collect(schema: TSchema, components: Map<string, Json>): Json {
  const plain = plainOf(JSON.parse(JSON.stringify(schema)), components);
  return plain as Json;
}

/** Words of ours that mean something to the validator alone. */
const ownKeywords: ReadonlySet<string> = new Set(["$id", "uncappable", "requiredUnless"]);

function plainOf(node: unknown, components: Map<string, Json>): unknown {
  if (Array.isArray(node)) return node.map((item) => plainOf(item, components));
  if (typeof node !== "object" || node === null) return node;
  const schema = node as Json;
  const fields = Object.entries(schema).filter(([key]) => !ownKeywords.has(key) || typeof schema[key] === "object");
  const plain: Json = Object.fromEntries(fields.map(([key, value]) => [key, plainOf(value, components)]));
  if (Array.isArray(schema["enum"]) && schema["type"] === undefined) plain["type"] = "string";
  const id = schema["$id"];
  if (typeof id !== "string") return plain;
  components.set(id, plain);
  return { $ref: `#/components/schemas/${id}` };
}
