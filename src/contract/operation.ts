import type { TSchema } from "typebox";
import type { KeyScope } from "./administration/organization.ts";
import type { ErrorCode } from "./error.ts";
import { type OperationName, type Route, routeOf, routes } from "./routes.ts";

/**
 * The least a caller must be. `none` needs no key at all; `caller` is anybody of the workspace, who may call its agents;
 * `agent` gets tokens for users, and nothing of deployments; `admin` may do everything.
 */
export type Role = "caller" | "reader" | "agent" | "deployer" | "admin" | "listener" | "none";

/** Who an operation is for; only `public` ones stand in the OpenAPI document. */
export type Audience = "public" | "listener" | "debug";

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
  /** Content type of a body that is a stream of bytes instead of JSON. */
  stream: string | null;
  /**
   * What success answers; a null schema means an empty body. `partly`: the status when some of many things failed.
   * `isPage`: HTML for a browser; `file`: content type of bytes to be kept.
   */
  response: { status: number; partly?: number; schema: TSchema | null; isPage?: boolean; file?: string };
  /** Refusals of its own; those that follow from its role and its input are added by `refusalsOf`. */
  errors: readonly ErrorCode[];
  role: Role;
  /**
   * Least scope of the key for operations that administer: they work on whatever the key reaches, and need no workspace
   * named. null: the operation works in one workspace (or needs no key at all).
   */
  administers: KeyScope | null;
  audience: Audience;
  /** The answer carries an ETag; a GET with the same one in `If-None-Match` answers 304. */
  hasEtag: boolean;
  /** A change of a deployment that is held back when its ETag is not the one in `If-Match`. */
  takesIfMatch: boolean;
  /** Answers as a stream of server-sent events to those who accept `text/event-stream`. */
  canStream: boolean;
}

/** The parts of an operation that differ from the usual: a public JSON call without parameters. */
type Written<P, Q, B, R, N> = Pick<Operation, "operationId" | "tag" | "summary" | "role"> &
  Partial<
    Pick<Operation, "errors" | "audience" | "stream" | "hasEtag" | "takesIfMatch" | "canStream" | "administers">
  > & {
    params?: P;
    query?: Q;
    body?: B;
    bodyRequired?: N;
    response: { status: number; partly?: number; schema: R; isPage?: boolean; file?: string };
  };

/** Adds verb and path from `routes.ts`, fills in the usual parts and keeps the schemas' types, so that handlers and clients can derive theirs. */
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
    ...written,
    ...routeOf(routes[id]),
    id,
    params: (written.params ?? null) as P,
    query: (written.query ?? null) as Q,
    body: (written.body ?? null) as B,
  } satisfies Operation;
}

/**
 * Whether the operation takes an `Idempotency-Key`: everything that changes things of a workspace. What only reads, as
 * some older clients do by POST, and what listeners and agents say, may be repeated anyway.
 */
export function keepsAnswer({ verb, role }: Pick<Operation, "verb" | "role">): boolean {
  return verb !== "GET" && (role === "deployer" || role === "admin");
}
