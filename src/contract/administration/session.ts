import { type Static, Type } from "typebox";
import { nullable, timestamp, uuid } from "../schema.ts";
import { KeyRole } from "./api-key.ts";
import { KeyScope } from "./organization.ts";

/** Holds the session of a browser; no script can read it, and it is never passed on to an agent. */
export const sessionCookie = "pierhead_session";

/**
 * Every call that is made with the cookie has to carry this header. A page of another origin cannot send it: browsers ask
 * first whether they may (a CORS preflight), and nobody answers.
 */
export const consoleHeader = "x-pierhead-console";

/** Holds what belongs to one sign-in at an identity provider, for as long as that takes. */
export const signInCookie = "pierhead_sign_in";

/** A browser stays signed in for this long, unless its key ends before. */
export const sessionDays = 7;

/** A person who came by an identity provider is asked for there again after this long: who left there is out here, too. */
export const memberSessionHours = 12;

export const SignIn = Type.Object(
  { api_key: Type.String({ minLength: 1, maxLength: 512, examples: ["ph_3f1c9a0b7d2e_example"] }) },
  { $id: "SignIn" },
);
export type SignIn = Static<typeof SignIn>;

/** Who is asking, by a key or by a session, and where they may act. */
export const Session = Type.Object(
  {
    api_key_id: nullable(
      uuid(),
      "The key that is shown, or that the session stands for; null: it stands for a person.",
    ),
    member_id: nullable(uuid(), "The person's membership that counts here; null: it is a key."),
    name: Type.String({ description: "Of that key or person.", examples: ["ci"] }),
    role: KeyRole,
    scope: KeyScope,
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "Where it acts unless `X-Tenant-Id` names another; null: it has to name one."),
    workspaces: Type.Array(
      Type.Object({
        id: uuid(),
        name: Type.String({ examples: ["Search team"] }),
        role: KeyRole,
        scope: KeyScope,
      }),
      { description: "Where it may act, and as what; at most 100." },
    ),
    expires_at: nullable(timestamp(), "End of the session or of the key; null: never."),
  },
  { $id: "Session" },
);
export type Session = Static<typeof Session>;
