import { type Static, Type } from "typebox";
import { nullable, timestamp, uuid } from "../schema.ts";
import { KeyRole } from "./api-key.ts";
import { KeyScope } from "./organization.ts";

/** Holds a browser's session. Scripts cannot read it, and the gateway never forwards it to an agent. */
export const sessionCookie = "pierhead_session";

/**
 * Returns the name of a cookie of the console. Over https it has the prefix `__Host-`: browsers accept such a cookie only from
 * this very host, for all its paths (RFC 6265bis 4.1.3), so no page of another name under the same domain can replace it.
 */
export const cookieName = (name: string, isSecure: boolean): string => (isSecure ? `__Host-${name}` : name);

/**
 * Every call that uses the cookie must carry this header. A page of another origin cannot send it, because browsers ask
 * for permission first (a CORS preflight), and the server does not grant it.
 */
export const consoleHeader = "x-pierhead-console";

/**
 * Marks calls to agents that the console repeats on its own. They neither wake a sleeping deployment nor keep it awake, and
 * are no part of its metrics. The server ignores the header on calls that change something.
 */
export const backgroundHeader = "x-pierhead-background";

/** Marks calls to agents that answer a request which a run waits for, so that the audit log can tell them from other runs. */
export const answerHeader = "x-pierhead-answer";

/**
 * Prefix of the headers that a user of the console sends to an agent with its own authentication, such as
 * `x-pierhead-agent-authorization`. The gateway removes the prefix. With it, Pierhead takes none of them for its own credential.
 */
export const agentHeaderPrefix = "x-pierhead-agent-";

/** Holds the state of one sign-in at an identity provider, until the sign-in ends. */
export const signInCookie = "pierhead_sign_in";

/** Lifetime of a browser's session, unless its key expires earlier. */
export const sessionDays = 7;

/** Lifetime of a member's session. The member must then sign in again, so access ends soon after the provider removes it. */
export const memberSessionHours = 12;

/** Lifetime of a sign-in link. It ends with its first use. */
export const signInLinkMinutes = 10;

/** Begins the code in a sign-in link, and no API key. */
export const signInCodePrefix = "phc_";

export const SignIn = Type.Object(
  {
    api_key: Type.String({
      minLength: 1,
      maxLength: 512,
      description: "An API key, or the code of a sign-in link.",
      examples: ["ph_3f1c9a0b7d2e_example"],
    }),
  },
  { $id: "SignIn" },
);
export type SignIn = Static<typeof SignIn>;

/** Signs one browser in as the key that asked for it. The code stands after the `#`, which browsers send to no server. */
export const SignInLink = Type.Object(
  {
    url: Type.String({ examples: ["https://pierhead.example.com/#sign-in=phc_example"] }),
    expires_at: timestamp(),
  },
  { $id: "SignInLink" },
);
export type SignInLink = Static<typeof SignInLink>;

/** Identity of the caller, by a key or by a session, and the workspaces in which they may act. */
export const Session = Type.Object(
  {
    api_key_id: nullable(
      uuid(),
      "The calling key, or the key behind the session. null: the session belongs to a member.",
    ),
    member_id: nullable(uuid(), "The membership that applies here. null: the caller is a key."),
    name: Type.String({ description: "Name of the key or the member.", examples: ["ci"] }),
    role: KeyRole,
    scope: KeyScope,
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "Default workspace if there is no `X-Tenant-Id`. null: the header is required."),
    workspaces: Type.Array(
      Type.Object({
        id: uuid(),
        name: Type.String({ examples: ["Search team"] }),
        role: KeyRole,
        scope: KeyScope,
      }),
      { description: "Workspaces in which the caller may act, with the role in each. At most 100." },
    ),
    expires_at: nullable(timestamp(), "End of the session or of the key. null: never."),
  },
  { $id: "Session" },
);
export type Session = Static<typeof Session>;
