import { operation } from "./operation.ts";
import { Session, SignIn } from "./session.ts";

/** Signing in to the console: a key is shown once, and a cookie stands for it from then on. */
export const sessionOperations = {
  createSession: operation("createSession", {
    operationId: "create_session_v2_session_post",
    verb: "POST",
    path: "/v2/session",
    tag: "Server",
    summary: "Sign a browser in with an API key; sets a cookie. Needs the header `X-Pierhead-Console`",
    body: SignIn,
    response: { status: 200, schema: Session },
    errors: ["invalidToken", "forbidden", "roleMissing", "tooManyRequests"],
    role: "none",
  }),
  getSession: operation("getSession", {
    operationId: "get_session_v2_session_get",
    verb: "GET",
    path: "/v2/session",
    tag: "Server",
    summary: "Who is asking, and in which workspaces they may act",
    response: { status: 200, schema: Session },
    role: "reader",
    administers: "workspace",
  }),
  deleteSession: operation("deleteSession", {
    operationId: "delete_session_v2_session_delete",
    verb: "DELETE",
    path: "/v2/session",
    tag: "Server",
    summary: "Sign a browser out; the cookie is worth nothing from then on",
    response: { status: 204, schema: null },
    role: "none",
  }),
};
