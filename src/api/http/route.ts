import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Static, TSchema } from "typebox";
import { type CallerAssertions, createCallerAssertions } from "../../auth/caller-assertion.ts";
import { createKeyring, type Keyring } from "../../auth/keyring.ts";
import {
  type Administrator,
  type Caller,
  type Credentials,
  findAdministrator,
  findListenerPrincipal,
  findPrincipal,
  type ListenerPrincipal,
  ownerOf,
  type Principal,
} from "../../auth/principal.ts";
import { type Operation, takesIdempotencyKey } from "../../contract/operation.ts";
import { forWorkspace } from "../../store/engine/connection-turns.ts";
import type { SealedResponse } from "../../store/tenants/idempotency-keys.ts";
import type { ApiDeps } from "../deps.ts";
import { BodyMemory } from "./body-memory.ts";
import { type Page, sendPage } from "./browser-page.ts";
import { etagOf, hasAnswer } from "./etag.ts";
import { type EncodedResponse, idempotentRequestOf, type MakeResponseRow, runOnce } from "./idempotency.ts";
import { JsonStream, sendJsonStream } from "./json-stream.ts";
import { LargePages } from "./large-pages.ts";
import { ParseTurns, smallBodyBytesMax } from "./parse-turns.ts";
import { RequestLimits } from "./rate-limit.ts";
import { bodySenderOf, readBody, refusalsOf } from "./read-body.ts";
import { compileRequest } from "./request-parts.ts";
import { inRequestSpan } from "./request-span.ts";
import { answersWithChange, changeRules, RequestTurns, readRules, takesTurns } from "./request-turns.ts";
import { UnreadAnswers } from "./unread-answers.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Name of the operation, for logs and metrics. */
    operation?: string;
  }
  interface FastifyRequest {
    /** Authenticated caller, for the handler and the log line; null before authentication or when none is required. */
    principal: Caller | null;
  }
}

type Encoded = EncodedResponse | JsonStream;

/** What route files register their routes on. */
export interface Api {
  server: FastifyInstance;
  deps: ApiDeps;
  keyring: Keyring;
  assertions: CallerAssertions;
  limits: RequestLimits;
  bodyMemory: BodyMemory;
  parseTurns: ParseTurns;
  largePages: LargePages;
  unreadAnswers: UnreadAnswers;
  readTurns: RequestTurns<unknown>;
  changeTurns: RequestTurns<Encoded>;
  /** Every operation that has a route; the OpenAPI document and the 405 responses use this list. */
  registered: Operation[];
}

export function createRoutes(server: FastifyInstance, deps: ApiDeps): Api {
  server.decorateRequest("principal", null);
  const { db, sealer, logger, settings } = deps;
  const assertions = createCallerAssertions(sealer, { issuer: settings.ownUrl, now: () => db.now() });
  const keyring = createKeyring(db, logger, settings.serviceSecret, assertions);
  const limits = new RequestLimits(settings.rateLimit, settings.trustedProxies);
  return {
    server,
    deps,
    keyring,
    assertions,
    limits,
    bodyMemory: new BodyMemory(),
    parseTurns: new ParseTurns(),
    largePages: new LargePages(),
    unreadAnswers: new UnreadAnswers(),
    readTurns: new RequestTurns(readRules(db.kind)),
    changeTurns: new RequestTurns(changeRules),
    registered: [],
  };
}

/** One request of one operation, validated and normalized. */
export interface Call<O extends Operation, P> {
  principal: P;
  params: Part<O["params"]>;
  query: Part<O["query"]>;
  body: Part<O["body"]>;
  request: FastifyRequest;
  /** Answers with the operation's partial-failure status. */
  answerPartly(): void;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  setCookie(text: string): void;
  /** Starts a response that the handler writes and ends itself. The handler's return value is ignored. */
  takeOver(headers: Record<string, string>, status?: number): ServerResponse;
  /**
   * Returns the row that saves this response for retries, to be written together with the effect; null without an
   * `Idempotency-Key`. Only for operations registered with `savesResponse`.
   */
  responseRow(body: Answer<O>): SealedResponse | null;
}

type Part<S extends TSchema | null> = S extends TSchema ? Static<S> : null;

/** Body of the response; nothing when the operation answers with an empty one. */
type Answer<O extends Operation> = O["response"]["schema"] extends TSchema
  ? Static<O["response"]["schema"]>
  : O["response"]["schema"] extends null
    ? Nothing
    : unknown;

/** Return type of a function that returns nothing. */
type Nothing = ReturnType<() => void>;

export type Handler<O extends Operation, P> = (call: Call<O, P>) => Promise<Answer<O> | JsonStream> | Answer<O>;

/**
 * Registers an operation on resources of a workspace. A changing request with an `Idempotency-Key` runs inside a
 * transaction (`Db.atomically`) that also saves its response, unless the handler does that itself (`savesResponse`).
 * @param options.userOf Returns the user whose data the operation works on, when parameters, query and body do not name
 *   the user. One user's response is never replayed to another.
 */
export function route<O extends Operation>(
  api: Api,
  operation: O,
  handler: Handler<O, Principal>,
  { savesResponse = false, userOf }: { savesResponse?: boolean; userOf?: UserOf } = {},
): void {
  const idempotency = { savesResponse, scopeOf: ({ tenantId }: Principal) => tenantId, ...(userOf && { userOf }) };
  register(api, operation, handler, {
    admit: countedByKey(api, (credentials) => findPrincipal(api.keyring, credentials, operation.role)),
    turns: turnsOf(api, operation),
    ...(takesIdempotencyKey(operation) && { idempotency }),
  });
}

/** Returns whose turns the requests of an operation take; undefined: they take none. */
function turnsOf({ readTurns, changeTurns }: Api, operation: Operation): RequestTurns<Encoded> | undefined {
  if (takesTurns(operation)) return readTurns;
  return answersWithChange(operation) ? changeTurns : undefined;
}

type UserOf = (principal: Principal, request: FastifyRequest) => string;

/** Registers an administrative operation. It works on everything that the key reaches, not on one workspace. */
export function adminRoute<O extends Operation>(api: Api, operation: O, handler: Handler<O, Administrator>): void {
  register(api, operation, handler, {
    admit: countedByKey(api, (credentials) => findAdministrator(api.keyring, credentials, operation)),
    turns: turnsOf(api, operation),
    // Two keys of one organization may see different data, so a response is replayed only to the key that got it.
    ...(takesIdempotencyKey(operation) && { idempotency: { savesResponse: false, scopeOf: ({ keyId }) => keyId } }),
  });
}

/** Authenticates and counts requests against the rate limit of their key. */
function countedByKey<P extends Principal | Administrator>(api: Api, find: (credentials: Credentials) => Promise<P>) {
  return async (request: FastifyRequest) => {
    const principal = await api.limits.admit(request, find);
    await api.limits.count({ keyId: principal.keyId, ownerId: ownerOf(principal) });
    return principal;
  };
}

/** Registers an operation of the listener protocol, which has no rate limit per key. */
export function listenerRoute<O extends Operation>(
  api: Api,
  operation: O,
  handler: Handler<O, ListenerPrincipal>,
): void {
  register(api, operation, handler, {
    admit: (request) => api.limits.admit(request, (credentials) => findListenerPrincipal(api.keyring, credentials)),
  });
}

/** Registers the operation that exchanges an enrollment token for a listener's key: the only use of such a token. */
export function enrollmentRoute<O extends Operation>(
  api: Api,
  operation: O,
  handler: Handler<O, ListenerPrincipal>,
): void {
  const find = (credentials: Credentials) => findListenerPrincipal(api.keyring, credentials, { isEnrolling: true });
  register(api, operation, handler, { admit: (request) => api.limits.admit(request, find) });
}

/**
 * Registers an operation that needs no key.
 * @param options.admit Throws when the headers alone show that the request is not for this operation, before its body is
 *   read.
 */
export function openRoute<O extends Operation>(
  api: Api,
  operation: O,
  handler: Handler<O, null>,
  { admit = () => {} }: { admit?: (request: FastifyRequest) => void } = {},
): void {
  register(api, operation, handler, {
    admit: async (request) => {
      admit(request);
      return null;
    },
  });
}

/** Registers an operation that answers with a page for a browser. */
export function pageRoute<O extends Operation>(
  api: Api,
  operation: O,
  handler: (call: Call<O, null>) => Promise<Page> | Page,
): void {
  register(api, operation, handler as unknown as Handler<O, null>, { admit: async () => null });
}

/** Returns the log fields that identify the caller. */
export function callerOf(request: FastifyRequest): { tenant_id?: string; key_id?: string } {
  const { principal } = request;
  if (!principal) return {};
  return "tenantId" in principal
    ? { tenant_id: principal.tenantId, key_id: principal.keyId }
    : { key_id: principal.keyId };
}

interface RouteRules<P> {
  admit(request: FastifyRequest): Promise<P>;
  /** Present when requests of one owner take turns. */
  turns?: RequestTurns<Encoded> | undefined;
  /** Present when the operation accepts an `Idempotency-Key`. Keys of different scopes are independent. */
  idempotency?: {
    savesResponse: boolean;
    scopeOf(principal: P): string;
    userOf?(principal: P, request: FastifyRequest): string;
  };
}

function register<O extends Operation, P extends Caller | null>(
  api: Api,
  operation: O,
  handler: Handler<O, P>,
  { admit, turns, idempotency }: RouteRules<P>,
): void {
  const { limits, bodyMemory: memory, parseTurns, unreadAnswers } = api;
  const onMalformed = (request: FastifyRequest) =>
    limits.countRefusedBody(refusalsOf(bodySenderOf(request, limits), operation));
  const read = compileRequest(operation, { ...api.deps.settings, onMalformed });
  /** Parses and checks a request. */
  const parseInTurn = async (owner: string | null, request: FastifyRequest, reply: FastifyReply) => {
    const parse = () => read(request) as Pick<Call<O, P>, "params" | "query" | "body">;
    const isLarge = bytesOf(request) > smallBodyBytesMax;
    return isLarge && owner !== null ? parseTurns.take(owner, parse, signalOf(reply)) : parse();
  };
  const hasOwnBody = operation.verb !== "GET" && operation.stream === null;
  const { status, partly = status, schema, isPage = false } = operation.response;
  api.registered.push(operation);
  api.server.route({
    method: operation.verb,
    url: operation.path.replaceAll(/\{(\w+)\}/g, ":$1"),
    config: { operation: operation.id },
    // Reject unauthorized callers before reading the body.
    onRequest: async (request) => {
      request.principal = await admit(request);
      unreadAnswers.admit(ownerOf(request.principal));
    },
    onSend: async ({ principal }, reply, payload) => {
      if (typeof payload !== "string") return;
      const isRefusable = operation.verb === "GET" || operation.role === "reader";
      unreadAnswers.hold({ owner: ownerOf(principal), bytes: Buffer.byteLength(payload), isRefusable }, reply.raw);
    },
    handler: inShare(api.deps.traces, async (request, reply) => {
      const principal = request.principal as P;
      if (hasOwnBody) request.body = await readBody({ request, reply, operation }, { memory, limits });
      const owner = ownerOf(principal);
      const parts = await parseInTurn(owner, request, reply);
      reply.code(status);
      const answerPartly = () => void reply.code(partly);
      const shared = { principal, ...parts, request, answerPartly };
      const run = (responseRow: Call<O, P>["responseRow"]) => handler(callOf({ ...shared, responseRow }, reply));
      const encode = (body: unknown) => textOf(operation, body, reply.statusCode);
      const identity =
        idempotency?.userOf === undefined ? parts : { ...parts, user: idempotency.userOf(principal, request) };
      const idempotent =
        idempotency &&
        idempotentRequestOf(request, { scopeId: idempotency.scopeOf(principal), operation, parts: identity });
      const inTurn = <T extends Encoded>(act: () => Promise<T>) => {
        if (turns === undefined || owner === null) return act();
        return turns.take({ owner, operation: operation.id, signal: signalOf(reply) }, act);
      };
      if (idempotent !== undefined) {
        const act = async (makeRow: MakeResponseRow) => encode(await run((body) => makeRow(encode(body))));
        const saving = { request: idempotent, savesResponse: idempotency?.savesResponse === true, act };
        const { isReplayed, ...answer } = await inTurn(async () => {
          const done = await runOnce(api.deps, saving);
          return { ...done.answer, isReplayed: done.isReplayed };
        });
        if (isReplayed) reply.header("idempotency-replayed", "true");
        return send(request, reply, answer);
      }
      if (turns !== undefined) {
        const answer = await inTurn(async () => unlessStream(await run(() => null), encode));
        const hold = (unread: { bytes: number; isRefusable: boolean }) => {
          unreadAnswers.hold({ owner, ...unread }, reply.raw);
        };
        return sendEither({ request, reply, logger: api.deps.logger, hold }, answer);
      }
      const body = await run(() => null);
      if (reply.sent) return reply;
      if (isPage) return sendPage(reply, body as unknown as Page);
      if (operation.hasEtag) return send(request, reply, encode(body));
      return schema === null ? reply.send() : body;
    }),
  });
}

/** Runs the handler inside the span of its request, and its statements in the turns of its caller. */
const inShare = (traces: ApiDeps["traces"], handle: Parameters<typeof inRequestSpan>[1]) =>
  inRequestSpan(traces, (request, reply) => forWorkspace(ownerOf(request.principal), () => handle(request, reply)));

/** Returns the size of the body that was read. */
const bytesOf = ({ body }: FastifyRequest) => (Buffer.isBuffer(body) ? body.length : 0);

function callOf<O extends Operation, P>(
  parts: Omit<Call<O, P>, "signal" | "takeOver" | "setCookie">,
  reply: FastifyReply,
): Call<O, P> {
  let signal: AbortSignal | undefined;
  return {
    ...parts,
    setCookie(text) {
      reply.header("set-cookie", text);
    },
    takeOver(headers, status = reply.statusCode) {
      reply.hijack();
      const all = { ...reply.getHeaders(), ...headers };
      return reply.raw.writeHead(status, all as OutgoingHttpHeaders);
    },
    get signal() {
      signal ??= signalOf(reply);
      return signal;
    },
  };
}

/** Encodes a response as it is sent and saved: equal responses are equal bytes. */
function textOf({ response, hasEtag }: Operation, body: unknown, status: number): EncodedResponse {
  const text = response.schema === null ? "" : JSON.stringify(body);
  return { status, headers: hasEtag ? { etag: etagOf(text) } : {}, text };
}

function send(request: FastifyRequest, reply: FastifyReply, { status, headers, text }: EncodedResponse): FastifyReply {
  reply.code(status).headers(headers);
  const isReading = request.method === "GET" || request.method === "HEAD";
  if (isReading && headers["etag"] !== undefined && hasAnswer(request, headers["etag"])) return reply.code(304).send();
  return text === "" ? reply.send() : reply.type("application/json; charset=utf-8").send(text);
}

/** Encodes the body of a response, unless it encodes itself while it is sent. */
const unlessStream = (body: unknown, encode: (body: unknown) => EncodedResponse): Encoded =>
  body instanceof JsonStream ? body : encode(body);

const sendEither = (to: Parameters<typeof sendJsonStream>[0], answer: Encoded) =>
  answer instanceof JsonStream ? sendJsonStream(to, answer) : send(to.request, to.reply, answer);

function signalOf(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const { raw } = reply;
  if (raw.destroyed) controller.abort();
  raw.once("close", () => {
    if (!raw.writableEnded) controller.abort();
  });
  return controller.signal;
}
