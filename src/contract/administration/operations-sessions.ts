import { CallbackQuery } from "../oauth/oauth-token.ts";
import { operation } from "../operation.ts";
import { Session, SignIn } from "./session.ts";

/** Signing in to the console: a key is shown once, or a person goes to the identity provider; then a cookie stands for it. */
export const sessionOperations = {
  createSession: operation("createSession", {
    operationId: "create_session_v2_session_post",
    tag: "Server",
    summary: "Sign a browser in with an API key; sets a cookie. Needs the header `X-Pierhead-Console`",
    body: SignIn,
    response: { status: 200, schema: Session },
    errors: ["invalidToken", "forbidden", "roleMissing", "tooManyRequests"],
    role: "none",
  }),
  getSession: operation("getSession", {
    operationId: "get_session_v2_session_get",
    tag: "Server",
    summary: "Who is asking, and in which workspaces they may act",
    response: { status: 200, schema: Session },
    role: "reader",
    administers: "workspace",
  }),
  deleteSession: operation("deleteSession", {
    operationId: "delete_session_v2_session_delete",
    tag: "Server",
    summary: "Sign a browser out; the cookie is worth nothing from then on",
    response: { status: 204, schema: null },
    role: "none",
  }),
  beginSignIn: operation("beginSignIn", {
    operationId: "begin_sign_in_v2_session_oidc_get",
    tag: "Server",
    summary: "Send a member's browser to the identity provider, if one is set up (`sign_in` of `GET /info`)",
    response: { status: 303, schema: null, isPage: true },
    errors: ["tooManyRequests"],
    role: "none",
  }),
  finishSignIn: operation("finishSignIn", {
    operationId: "finish_sign_in_v2_session_oidc_callback_get",
    tag: "Server",
    summary: "Where the identity provider sends it back to; signs the member in and leads to the console",
    query: CallbackQuery,
    response: { status: 303, schema: null, isPage: true },
    role: "none",
  }),
};
