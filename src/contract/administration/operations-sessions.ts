import { CallbackQuery } from "../oauth/oauth-token.ts";
import { operation } from "../operation.ts";
import { Session, SignIn, SignInLink } from "./session.ts";

/** Sign-in to the console. A person sends a key once, or signs in at the identity provider, and gets a session cookie. */
export const sessionOperations = {
  createSession: operation("createSession", {
    operationId: "create_session_v2_session_post",
    tag: "Server",
    summary: "Sign a browser in with an API key and set a cookie. Needs the header `X-Pierhead-Console`",
    body: SignIn,
    response: { status: 200, schema: Session },
    errors: ["invalidToken", "forbidden", "roleMissing", "tooManyRequests"],
    role: "none",
  }),
  createSignInLink: operation("createSignInLink", {
    operationId: "create_sign_in_link_v2_session_links_post",
    tag: "Server",
    summary:
      "Create a link that signs one browser in to the console as the calling API key, once and within ten minutes",
    response: { status: 201, schema: SignInLink },
    errors: ["forbidden"],
    role: "reader",
    administers: "workspace",
  }),
  getSession: operation("getSession", {
    operationId: "get_session_v2_session_get",
    tag: "Server",
    summary: "Read the caller's identity and the workspaces in which they may act",
    response: { status: 200, schema: Session },
    role: "reader",
    administers: "workspace",
  }),
  deleteSession: operation("deleteSession", {
    operationId: "delete_session_v2_session_delete",
    tag: "Server",
    summary: "Sign a browser out; its cookie becomes invalid",
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
    summary: "Receive the browser from the identity provider, sign the member in and redirect to the console",
    query: CallbackQuery,
    response: { status: 303, schema: null, isPage: true },
    role: "none",
  }),
};
