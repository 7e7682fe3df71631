import fc from "fast-check";
import type { TSchema } from "typebox";
import { exampleOf } from "../../src/api/documents/schema-example.ts";
import { requestHeadersOf } from "../../src/contract/headers.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { hostileBodies } from "../support/hostile-bodies.ts";
import { arbitraryOf, type Schema } from "./arbitrary.ts";
import { invalidJson, mutatedBody, textOf } from "./mutate-body.ts";
import { headerName, headerText, headerValue, oddValue, parameter, segment } from "./odd-parts.ts";

/** One request with placeholders for ids: `<deployment_id:3>` is the fourth deployment that the target made. */
export interface FuzzRequest {
  kind: Kind;
  /** Null when the request was made for no operation. */
  operation: Operation | null;
  verb: string;
  path: string;
  headers: Record<string, string>;
  key: KeyName;
  body: string | null;
  transport: Transport;
}

export type Kind =
  | "valid"
  | "mutated body"
  | "broken body"
  | "hostile body"
  | "odd query"
  | "odd path"
  | "odd headers"
  | "odd transport";
export type KeyName = "admin" | "deployer" | "reader" | "listener" | "none" | "bad" | "bearer";
/**
 * `whole`: with its length. `chunked`: in pieces. `cut`: half of it, then disconnects. `lying`: shorter than its
 * Content-Length. `raw`: bytes as they are.
 */
export type Transport = "whole" | "chunked" | "cut" | "lying" | "raw";

const all: Operation[] = Object.values(operations);

/** Number of resources of one kind in use at a time. */
export const slotsMax = 6;

/**
 * Returns one request of a run. It follows from the seed and its number, so that it can be sent again. No address that
 * it names may exist, because the server may call it.
 */
export function requestNumber(seed: number, index: number): FuzzRequest {
  const [wanted] = fc.sample(anyRequest, {
    seed: (Math.imul(seed, 0x9e3779b1) + Math.imul(index, 0x85ebca6b)) | 0,
    numRuns: 1,
  });
  const { body, ...rest } = wanted as FuzzRequest;
  return { ...rest, body: body === null ? null : body.replaceAll(/(https?:\/\/)[a-z0-9.-]+/gi, "$1nowhere.invalid") };
}

function validBody(operation: Operation): fc.Arbitrary<unknown> {
  const made = arbitraryOf(operation.body as unknown as Schema);
  const known = knownBodies[operation.id] ?? fc.constant(exampleOf(operation.body as unknown as Schema));
  return fc.oneof({ weight: 2, arbitrary: known }, { weight: 5, arbitrary: made });
}

/** Bodies that pass the rules behind the shape, with unique names. */
const name = fc.stringMatching(/^[a-z][a-z0-9 ._-]{0,20}[a-z0-9]{4}$/);
const secrets = fc.array(
  fc.record({ name: fc.stringMatching(/^[A-Z_]{1,8}$/), value: fc.string({ unit: "grapheme" }) }),
  { maxLength: 3 },
);
const ofSource = (source: string, source_config: object, source_revision_config: object) =>
  fc.record({ name, secrets }).map((made) => ({ ...made, source, source_config, source_revision_config }));
const knownBodies: Record<string, fc.Arbitrary<unknown>> = {
  createDeployment: fc.oneof(
    ofSource("external_docker", { resource_spec: { cpu: 1 } }, { image_uri: "registry.invalid/agent:1" }),
    ofSource("internal_docker", { deployment_type: "dev" }, {}),
    ofSource("internal_docker", {}, { image_uri: "registry.invalid/agent:2" }),
    ofSource("internal_source", { deployment_type: "dev_zero" }, {}),
    ofSource(
      "github",
      { repo_url: "https://127.0.0.1:1/a/b", build_on_push: true },
      { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    ),
  ),
};

/** Long polls may wait as long as they are asked to, so these parameters are kept small. */
const waitMax: Record<string, number> = { wait: 0.05, timeout: 0.05, timeout_s: 0.05 };

function pathOf({ id, path, params }: Operation): fc.Arbitrary<string> {
  // The signed URL itself authorizes the upload.
  if (id === "putUpload")
    return fc.nat(slotsMax * 2).map((slot) => (slot < slotsMax ? `<upload_path:${slot}>` : "/uploads/<upload_id:0>"));
  const { properties = {} } = (params ?? {}) as Schema;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
  const others = names.map((one) =>
    fc.oneof(
      { weight: 1, arbitrary: fc.uuid() },
      { weight: 1, arbitrary: arbitraryOf(properties[one] ?? {}, one).map(String) },
    ),
  );
  return fc
    .tuple(fc.nat(slotsMax - 1), fc.tuple(...others), fc.nat(19))
    .map(([slot, random, dice]) =>
      path.replaceAll(/\{(\w+)\}/g, (_, one: string) =>
        dice === 0 ? encodeURIComponent(random[names.indexOf(one)]?.toWellFormed() || "-") : `<${one}:${slot}>`,
      ),
    );
}

function queryOf(schema: TSchema | null): fc.Arbitrary<string> {
  if (schema === null) return fc.constant("");
  return fc.tuple(arbitraryOf(schema as unknown as Schema), fc.nat(slotsMax - 1)).map(([made, slot]) => {
    const pairs = Object.entries(made as Record<string, unknown>).flatMap(([key, value]) =>
      (Array.isArray(value) ? value : [value]).map(
        (one) => `${encodeURIComponent(key)}=${parameterText(key, one, slot)}`,
      ),
    );
    return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
  });
}

/** Most ids are those of existing resources. */
function parameterText(key: string, value: unknown, slot: number): string {
  if (key in waitMax) return String(Math.min(Number(value), waitMax[key] as number));
  const isOfThing = /^(?:deployment|revision|listener)_ids?$/.test(key) && slot > 0;
  return isOfThing ? `<${key.replace(/s$/, "")}:${slot}>` : encodeURIComponent(String(value).toWellFormed());
}

function headersOf(operation: Operation): fc.Arbitrary<Record<string, string>> {
  const schema = requestHeadersOf(operation);
  const own = schema === null ? fc.constant({}) : arbitraryOf(schema as unknown as Schema);
  return own.map((made) => {
    const sent = Object.entries(made as Record<string, string>).map(([header, value]) => [header, headerText(value)]);
    return Object.fromEntries(sent.filter(([, value]) => value !== ""));
  });
}

/** Most requests use a valid key, because the code behind authentication is what the run tests. */
const keyOf = ({ role }: Operation): fc.Arbitrary<KeyName> =>
  fc.oneof(
    { weight: 20, arbitrary: fc.constant(role === "listener" ? "listener" : "admin") },
    { weight: 5, arbitrary: fc.constantFrom("admin", "bearer", "deployer", "reader", "bad", "none", "listener") },
  );

function validRequest(operation: Operation): fc.Arbitrary<FuzzRequest> {
  const body =
    operation.stream !== null
      ? fc.string({ unit: "binary" })
      : operation.body === null
        ? fc.constant(null)
        : validBody(operation).map(textOf);
  return fc
    .record({
      path: pathOf(operation),
      query: queryOf(operation.query),
      headers: headersOf(operation),
      key: keyOf(operation),
      body,
    })
    .map(({ path, query, headers, key, body: text }) => ({
      kind: "valid" as const,
      operation,
      verb: operation.verb,
      path: path.startsWith("<upload_path") ? path : path + query,
      headers: { ...headers, ...(text !== null && { "content-type": operation.stream ?? "application/json" }) },
      key,
      body: text,
      transport: "whole" as const,
    }));
}

const valid = fc.oneof(...all.map(validRequest));
const withBody = fc.oneof(
  ...all
    .filter(({ body }) => body !== null)
    .map((operation) =>
      fc
        .tuple(validRequest(operation), mutatedBody(validBody(operation)))
        .map(([request, body]): FuzzRequest => ({ ...request, kind: "mutated body", body })),
    ),
);
const broken = fc.tuple(valid, invalidJson).map(([request, body]): FuzzRequest => {
  const headers = { ...request.headers, "content-type": "application/json" };
  const changed = { ...request, kind: "broken body" as const, body, headers };
  return request.verb === "GET" ? { ...changed, verb: "POST", operation: null } : changed;
});

const readingBodies = all.filter(({ body }) => body !== null);
const hostileOf = (operation: Operation): fc.Arbitrary<FuzzRequest> =>
  fc
    .tuple(validRequest(operation), fc.constantFrom(...hostileBodies(operation.bodyLimits, operation.body)))
    .map(([request, { text }]): FuzzRequest => ({ ...request, kind: "hostile body", body: text }));
const hostile = fc.nat(readingBodies.length - 1).chain((index) => hostileOf(readingBodies[index] as Operation));

/** Returns every hostile body of every operation that reads one, with the name of the body. */
export function* hostileRequests(seed: number): Generator<{ name: string; wanted: FuzzRequest }> {
  for (const operation of readingBodies) {
    const [request] = fc.sample(validRequest(operation), { seed, numRuns: 1 });
    const key = operation.role === "listener" ? "listener" : "admin";
    for (const { name, text } of hostileBodies(operation.bodyLimits, operation.body)) {
      const wanted = { ...(request as FuzzRequest), kind: "hostile body" as const, key, body: text } as const;
      yield { name: `${operation.id}, ${name}`, wanted };
    }
  }
}

const oddQuery = fc
  .tuple(valid, fc.array(fc.tuple(parameter, oddValue, fc.constantFrom("=", "", "==")), { minLength: 1, maxLength: 8 }))
  .map(([request, pairs]): FuzzRequest => {
    const added = pairs
      .map(([key, value, sign]) => `${encodeURIComponent(key)}${sign}${sign === "" ? "" : value}`)
      .join("&");
    return { ...request, kind: "odd query", path: `${request.path}${request.path.includes("?") ? "&" : "?"}${added}` };
  });

const verb = fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND");
const oddPath = fc.oneof(
  fc.tuple(valid, verb, fc.array(segment, { minLength: 1, maxLength: 7 })).map(
    ([request, other, parts]): FuzzRequest => ({
      ...request,
      operation: null,
      kind: "odd path",
      verb: other,
      path: `/${parts.join("/")}`,
    }),
  ),
  fc.tuple(valid, segment, fc.nat()).map(([request, part, place]): FuzzRequest => {
    const parts = (request.path.split("?")[0] ?? "").split("/");
    parts[1 + (place % (parts.length - 1))] = part;
    return { ...request, operation: null, kind: "odd path", path: parts.join("/") };
  }),
  fc
    .tuple(valid, verb)
    .map(([request, other]): FuzzRequest => ({ ...request, operation: null, kind: "odd path", verb: other })),
  fc.tuple(valid, fc.constantFrom("/api-host", "/api", "/api/v1", "/api-host/api-host", "//", "/.")).map(
    ([request, prefix]): FuzzRequest => ({
      ...request,
      operation: null,
      kind: "odd path",
      path: prefix + request.path,
    }),
  ),
);

const oddHeaders = fc.tuple(valid, fc.array(fc.tuple(headerName, headerValue), { minLength: 1, maxLength: 4 })).map(
  ([request, pairs]): FuzzRequest => ({
    ...request,
    kind: "odd headers",
    headers: { ...request.headers, ...Object.fromEntries(pairs) },
  }),
);

const oddTransport = fc
  .tuple(
    fc.oneof(valid, withBody),
    fc.constantFrom<Transport>("chunked", "chunked", "cut", "lying", "raw"),
    fc.nat(200),
  )
  .map(([request, transport, dice]): FuzzRequest => {
    // One in two hundred is larger than any allowed body.
    const body = dice === 0 ? `"${"x".repeat(9 * 1024 * 1024)}"` : (request.body ?? "{}");
    return {
      ...request,
      kind: "odd transport",
      transport: request.verb === "GET" ? "raw" : transport,
      body: request.verb === "GET" ? null : body,
    };
  });

const anyRequest: fc.Arbitrary<FuzzRequest> = fc.oneof(
  { weight: 40, arbitrary: valid },
  { weight: 25, arbitrary: withBody },
  { weight: 5, arbitrary: broken },
  { weight: 1, arbitrary: hostile },
  { weight: 10, arbitrary: oddQuery },
  { weight: 8, arbitrary: oddPath },
  { weight: 7, arbitrary: oddHeaders },
  { weight: 5, arbitrary: oddTransport },
);
