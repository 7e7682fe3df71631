import type { TSchema } from "typebox";
import { bodyDepthMax } from "../../contract/body-limits.ts";
import { requestHeadersOf } from "../../contract/headers.ts";
import { eventExample } from "../../contract/logs/event.ts";
import { type Operation, takesIdempotencyKey } from "../../contract/operation.ts";
import { plainSchema } from "../../contract/plain-schema.ts";
import { headersNamed, refusalComponents, responsesOfRefusals } from "./openapi-errors.ts";
import { type ExampleSchema, exampleOf } from "./schema-example.ts";

type Json = Record<string, unknown>;

/** Version of the described API, as the original announces it; not the version of Pierhead. */
const apiVersion = "0.1.0";

/** Components that operations refer to by name. */
interface Components {
  schemas: Record<string, Json>;
  examples: Record<string, Json>;
}

/**
 * Returns the OpenAPI 3.1 document of the public operations. Schemas with an `$id` become components, so that generated
 * clients get named types.
 *
 * @param prefix Path under which the API is served, "" for none; becomes `servers[0].url`.
 */
export function openapiDocument(operations: readonly Operation[], prefix = ""): Json {
  const made: Components = { schemas: {}, examples: {} };
  const shown = operations.filter(({ audience }) => audience === "public");
  const paths: Record<string, Json> = {};
  for (const operation of shown) {
    const described = describeOperation(operation, made);
    paths[operation.path] = { ...paths[operation.path], [operation.verb.toLowerCase()]: described };
  }
  const refusals = refusalComponents(shown);
  return {
    openapi: "3.1.0",
    info: {
      title: "Pierhead",
      version: apiVersion,
      description: "An open control plane that builds, runs, updates and monitors agent servers.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: prefix === "" ? "/" : prefix }],
    security: keyed,
    tags: [...new Set(shown.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes,
      headers: refusals.headers,
      responses: refusals.responses,
      examples: { ...sorted(made.examples), ...refusals.examples },
      schemas: { ...sorted(made.schemas), ...refusals.schemas },
    },
  };
}

const securitySchemes = {
  ApiKey: { type: "apiKey", in: "header", name: "X-Api-Key", description: "A key of a workspace or an organization." },
  Bearer: { type: "http", scheme: "bearer", description: "The API key, as a bearer token." },
  ServiceKey: {
    type: "apiKey",
    in: "header",
    name: "X-Service-Key",
    description:
      "JSON Web Token (HS256) of a service that shares a secret with this server: `sub`, `exp`, `tenant_id`, `user_id`.",
  },
  TenantId: {
    type: "apiKey",
    in: "header",
    name: "X-Tenant-Id",
    description: "Workspace to act in. Required with a key of an organization. Any other key belongs to one workspace.",
  },
};

/** The key in either header, alone or with a workspace. */
const keyed = [{ ApiKey: [] }, { ApiKey: [], TenantId: [] }, { Bearer: [] }, { Bearer: [], TenantId: [] }];

function describeOperation(operation: Operation, made: Components): Json {
  const { operationId, summary, tag, role } = operation;
  const parameters = [
    ...parametersOf(operation.params, "path", made),
    ...parametersOf(operation.query, "query", made),
    ...parametersOf(requestHeadersOf(operation), "header", made),
  ];
  const body = bodyOf(operation, made);
  return {
    operationId,
    summary,
    tags: [tag],
    ...(role === "none" && { security: [] }),
    ...((role === "agent" || role === "caller") && { security: [...keyed, { ServiceKey: [] }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: { ...successesOf(operation, made), ...responsesOfRefusals(operation) },
  };
}

function successesOf(operation: Operation, made: Components): Json {
  const { response, hasEtag, canStream, verb } = operation;
  const { status, partly, schema } = response;
  const isIdempotent = takesIdempotencyKey(operation);
  const names = ["X-Request-Id", ...(hasEtag ? ["ETag"] : []), ...(isIdempotent ? ["Idempotency-Replayed"] : [])];
  const headers = headersNamed(names);
  const content = schema !== null && {
    content: { ...jsonContent(schema, made), ...(canStream && { "text/event-stream": eventStream }) },
  };
  if (response.isPage === true) return pagesOf(status, headers);
  if (response.file !== undefined) {
    const bytes = { [response.file]: { schema: { type: "string", format: "binary" } } };
    return { [status]: { description: "The file.", headers, content: bytes } };
  }
  const description = schema === null ? "Done; the body is empty." : "Done.";
  return {
    [status]: { description, headers, ...content },
    ...(partly !== undefined && {
      [partly]: { description: "Some of them failed. The body lists which ones and why.", headers, ...content },
    }),
    ...(hasEtag &&
      verb === "GET" && { 304: { description: "Not modified since the response with this ETag.", headers } }),
  };
}

/** Pages tell people in words whether the operation succeeded; the status tells it too. */
function pagesOf(status: number, headers: Json): Json {
  const content = { "text/html": { schema: { type: "string" } } };
  const location = { Location: { description: "Where the browser goes next.", schema: { type: "string" } } };
  const done =
    status < 300
      ? { description: "A page that reports the result.", headers, content }
      : { description: "Redirects the browser.", headers: { ...headers, ...location } };
  return {
    [status]: done,
    400: { description: "A page that explains why the request failed.", headers, content },
  };
}

const eventStream = {
  schema: {
    type: "string",
    description: "Server-sent events. The `data` of each is an Event, or a LogEntry for the type `log`.",
  },
  example: `id: ${eventExample.id}\nevent: ${eventExample.type}\ndata: ${JSON.stringify(eventExample)}\n\n`,
};

function parametersOf(schema: TSchema | null, location: "path" | "query" | "header", made: Components): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, TSchema & { default?: unknown; description?: string; format?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, field]) => ({
    name,
    in: location,
    required: required.includes(name) && field.default === undefined,
    ...(field.description !== undefined && { description: field.description }),
    schema: collect(field, made),
    ...(required.includes(name) && { example: exampleOf(field as ExampleSchema) }),
  }));
}

function bodyOf(operation: Operation, made: Components): Json | undefined {
  const { body, stream, bodyRequired: required, bodyLimits } = operation;
  // OpenAPI 3.1 describes raw bytes as a media type without a schema.
  if (stream !== null) return { required, content: { [stream]: {} } };
  if (body === null) return undefined;
  const description = `At most ${bodyLimits.bytesMax / 1_024} KiB, ${bodyLimits.valuesMax} values and ${bodyDepthMax} levels.`;
  return { description, required, content: jsonContent(body, made) };
}

/** Returns the schema with an example, by reference if the schema has a name. */
function jsonContent(schema: TSchema, made: Components): Json {
  const { $id } = schema as { $id?: string };
  const example = exampleOf(schema as ExampleSchema);
  if ($id === undefined) return { "application/json": { schema: collect(schema, made), example } };
  made.examples[$id] = { value: example };
  const examples = { [$id]: { $ref: `#/components/examples/${$id}` } };
  return { "application/json": { schema: collect(schema, made), examples } };
}

/** Returns the plain JSON Schema of a contract schema; parts with an `$id` move to `components`. */
function collect(schema: TSchema, made: Components): Json {
  return plainSchema(schema, made.schemas, "#/components/schemas/");
}

function sorted(components: Record<string, Json>): Record<string, Json> {
  return Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1)));
}
