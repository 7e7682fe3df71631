import type { TSchema } from "typebox";
import type { KeyScope } from "./administration/organization.ts";
import { type BodyLimits, bodyLimits } from "./body-limits.ts";
import type { ErrorCode } from "./error.ts";
import { type OperationName, type Route, routeOf, routes } from "./routes.ts";

/**
 * The lowest role that may call an operation. `none` needs no key. `caller` is every caller of the workspace, who may call
 * its agents. `agent` may get tokens for users but cannot access deployments. `admin` may do everything.
 */
export type Role = "caller" | "reader" | "agent" | "deployer" | "admin" | "listener" | "none";

/** Group of clients that an operation is for; `tools`: coding agents, which speak another protocol. Only `public` operations are in the OpenAPI document. */
export type Audience = "public" | "listener" | "debug" | "tools";

/** One operation of the API: everything that routing, validation, authorization and documentation need to know. */
export interface Operation extends Route {
  /** Name in code, logs and metrics. */
  id: string;
  /** Name in the OpenAPI document. */
  operationId: string;
  tag: string;
  summary: string;
  params: TSchema | null;
  query: TSchema | null;
  /** JSON body; null when there is none. */
  body: TSchema | null;
  bodyRequired: boolean;
  /** Limits of the body, also of one that the operation ignores. Streams have limits of their own. */
  bodyLimits: BodyLimits;
  /** Content type of a body that is a byte stream instead of JSON. */
  stream: string | null;
  /**
   * The response on success. A null schema means an empty body. `partly` is the status when some of several items failed.
   * `isPage`: HTML for a browser. `file`: content type of a download.
   */
  response: { status: number; partly?: number; schema: TSchema | null; isPage?: boolean; file?: string };
  /** The operation's own errors. `refusalsOf` adds those that follow from its role and its input. */
  errors: readonly ErrorCode[];
  role: Role;
  /**
   * Least scope of the key for administrative operations, which act on everything that the key reaches and need no
   * workspace. null: the operation acts in one workspace, or needs no key.
   */
  administers: KeyScope | null;
  audience: Audience;
  /** The response carries an ETag. A GET with the same ETag in `If-None-Match` answers 304. */
  hasEtag: boolean;
  /** The operation changes a deployment and is refused if the deployment's ETag differs from `If-Match`. */
  takesIfMatch: boolean;
  /** Answers with a stream of server-sent events to clients that accept `text/event-stream`. */
  canStream: boolean;
}

/** Fields of an operation that differ from the defaults: a public JSON call without parameters. */
type Written<P, Q, B, R, N> = Pick<Operation, "operationId" | "tag" | "summary" | "role"> &
  Partial<
    Pick<
      Operation,
      "errors" | "audience" | "stream" | "hasEtag" | "takesIfMatch" | "canStream" | "administers" | "bodyLimits"
    >
  > & {
    params?: P;
    query?: Q;
    body?: B;
    bodyRequired?: N;
    response: { status: number; partly?: number; schema: R; isPage?: boolean; file?: string };
  };

/** Adds verb and path from `routes.ts` and the defaults. Keeps the schemas' types, so that handlers and clients can derive theirs. */
export function operation<
  const I extends OperationName,
  P extends TSchema | null = null,
  Q extends TSchema | null = null,
  B extends TSchema | null = null,
  R extends TSchema | null = null,
  const N extends boolean = B extends null ? false : true,
>(id: I, written: Written<P, Q, B, R, N>) {
  return {
    audience: "public" as Audience,
    errors: [] as readonly ErrorCode[],
    stream: null,
    hasEtag: false,
    takesIfMatch: false,
    administers: null as KeyScope | null,
    canStream: false,
    bodyRequired: ((written.body ?? null) !== null) as N,
    bodyLimits: (written.role === "none" || written.body === undefined
      ? bodyLimits.small
      : bodyLimits.keyed) as BodyLimits,
    ...written,
    ...routeOf(routes[id]),
    id,
    params: (written.params ?? null) as P,
    query: (written.query ?? null) as Q,
    body: (written.body ?? null) as B,
  } satisfies Operation;
}

/**
 * Reports whether the operation takes an `Idempotency-Key`: every operation that changes a workspace does. Reads (some
 * older clients read by POST) and the calls of listeners and agents can be repeated safely without one.
 */
export function takesIdempotencyKey({ verb, role }: Pick<Operation, "verb" | "role">): boolean {
  return verb !== "GET" && (role === "deployer" || role === "admin");
}
