import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Static, TSchema } from "typebox";
import { createKeyring, type Keyring } from "../auth/keyring.ts";
import { findListenerPrincipal, findPrincipal, type ListenerPrincipal, type Principal } from "../auth/principal.ts";
import type { Operation } from "../contract/operation.ts";
import type { ApiDeps } from "./app.ts";
import { credentialsOf } from "./authenticate.ts";
import { compileRequest } from "./request-parts.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Name of the operation in logs and metrics. */
    operation?: string;
  }
}

/** What route files add their routes to. */
export interface Api {
  server: FastifyInstance;
  deps: ApiDeps;
  keyring: Keyring;
  /** Every operation that has a route; the OpenAPI document and the 405 answers are made of it. */
  registered: Operation[];
}

export function createRoutes(server: FastifyInstance, deps: ApiDeps): Api {
  return { server, deps, keyring: createKeyring(deps.db, deps.logger), registered: [] };
}

/** One request of one operation, checked and normalised. */
export interface Call<O extends Operation, P> {
  principal: P;
  params: Part<O["params"]>;
  query: Part<O["query"]>;
  body: Part<O["body"]>;
  request: FastifyRequest;
  /** Answers with the operation's other status: some of many things failed. */
  answerPartly(): void;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}

type Part<S extends TSchema | null> = S extends TSchema ? Static<S> : null;

/** The answer's body, or nothing when the operation answers with an empty one. */
type Answer<O extends Operation> = O["response"]["schema"] extends TSchema
  ? Static<O["response"]["schema"]>
  : O["response"]["schema"] extends null
    ? Nothing
    : unknown;

/** What a function gives back that returns nothing. */
type Nothing = ReturnType<() => void>;

export type Handler<O extends Operation, P> = (call: Call<O, P>) => Promise<Answer<O>> | Answer<O>;

/** An operation on things of a workspace. */
export function route<O extends Operation>(api: Api, operation: O, handler: Handler<O, Principal>): void {
  register(api, operation, handler, (request) =>
    findPrincipal(api.keyring, credentialsOf(request.headers), operation.role),
  );
}

/** An operation of the listener protocol. */
export function listenerRoute<O extends Operation>(
  api: Api,
  operation: O,
  handler: Handler<O, ListenerPrincipal>,
): void {
  register(api, operation, handler, (request) => findListenerPrincipal(api.keyring, credentialsOf(request.headers)));
}

/** An operation that needs no key. */
export function openRoute<O extends Operation>(api: Api, operation: O, handler: Handler<O, null>): void {
  register(api, operation, handler, async () => null);
}

/** Who was admitted, for the handler and for the log line at the end. */
const principals = new WeakMap<FastifyRequest, Principal | ListenerPrincipal | null>();

/** Fields of the log line that say who asked. */
export function callerOf(request: FastifyRequest): { tenant_id?: string; key_id?: string } {
  const principal = principals.get(request);
  if (!principal) return {};
  return "tenantId" in principal
    ? { tenant_id: principal.tenantId, key_id: principal.keyId }
    : { key_id: principal.keyId };
}

function register<O extends Operation, P extends Principal | ListenerPrincipal | null>(
  api: Api,
  operation: O,
  handler: Handler<O, P>,
  admit: (request: FastifyRequest) => Promise<P>,
): void {
  const read = compileRequest(operation, api.deps.settings);
  const { status, partly = status, schema } = operation.response;
  api.registered.push(operation);
  api.server.route({
    method: operation.verb,
    url: operation.path.replaceAll(/\{(\w+)\}/g, ":$1"),
    config: { operation: operation.id },
    // Before the body is read: who may not ask is not listened to.
    onRequest: async (request) => {
      principals.set(request, await admit(request));
    },
    handler: async (request, reply) => {
      const principal = principals.get(request) as P;
      const { params, query, body } = read(request) as Pick<Call<O, P>, "params" | "query" | "body">;
      let signal: AbortSignal | undefined;
      reply.code(status);
      const answer = await handler({
        principal,
        params,
        query,
        body,
        request,
        answerPartly: () => void reply.code(partly),
        get signal() {
          signal ??= signalOf(reply);
          return signal;
        },
      });
      return schema === null ? reply.send() : answer;
    },
  });
}

function signalOf(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const { raw } = reply;
  if (raw.destroyed) controller.abort();
  raw.once("close", () => {
    if (!raw.writableEnded) controller.abort();
  });
  return controller.signal;
}
