import { type Static, Type } from "typebox";
import { literals, nullable, optional, timestamp } from "../schema.ts";
import { CreatedApiKey } from "./api-key.ts";
import { KeyScope } from "./organization.ts";

/** Time in which a person must allow a command line. */
export const deviceLoginMinutes = 10;

/** Seconds between two polls of a command line. */
export const devicePollSeconds = 2;

/** Lifetime of the key of a command line, unless the session's key expires earlier. */
export const deviceKeyDays = 90;

/** Letters without vowels, so that codes spell no words, and without those that look like others (RFC 8628, section 6.1). */
export const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ";

/** Number of letters of a code: 20^8 codes, of which at most 2,000 are valid at a time. */
export const userCodeLength = 8;

const userCode = Type.String({
  minLength: 1,
  maxLength: 32,
  description: "The code that the command line shows. Case, blanks and hyphens do not matter.",
  examples: ["WDJB-MJHT"],
});

/** The person reads this name on the page that asks, so it has no blanks and cannot be a sentence. */
const clientName = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]*$",
  description: "Name of the machine. It becomes the name of the key.",
  examples: ["laptop"],
});

export const StartDeviceLogin = Type.Object({ client_name: clientName }, { $id: "StartDeviceLogin" });
export type StartDeviceLogin = Static<typeof StartDeviceLogin>;

/** Fields as in RFC 8628, section 3.2. */
export const StartedDeviceLogin = Type.Object(
  {
    device_code: Type.String({
      description: "Secret of the command line, with which it polls.",
      examples: ["phd_example"],
    }),
    user_code: Type.String({ description: "Code that the person types in the console.", examples: ["WDJB-MJHT"] }),
    verification_uri: Type.String({ examples: ["https://pierhead.example.com/host/device"] }),
    expires_in: Type.Integer({ description: "Seconds until both codes expire.", examples: [600] }),
    interval: Type.Integer({ description: "Seconds between two polls.", examples: [2] }),
  },
  { $id: "StartedDeviceLogin" },
);
export type StartedDeviceLogin = Static<typeof StartedDeviceLogin>;

export const FinishDeviceLogin = Type.Object(
  { device_code: Type.String({ minLength: 1, maxLength: 128, examples: ["phd_example"] }) },
  { $id: "FinishDeviceLogin" },
);
export type FinishDeviceLogin = Static<typeof FinishDeviceLogin>;

export const FinishedDeviceLogin = Type.Object(
  {
    status: literals(["pending", "refused", "allowed"], {
      description: "`pending`: poll again after `interval` seconds. The others end the login.",
    }),
    key: nullable(CreatedApiKey, "The key of the command line, once, when a person allowed it."),
  },
  { $id: "FinishedDeviceLogin" },
);
export type FinishedDeviceLogin = Static<typeof FinishedDeviceLogin>;

export const DeviceLoginQuery = Type.Object({ user_code: userCode });

/** A sign-in of a command line, as the person sees it who allows or refuses it. */
export const DeviceLogin = Type.Object(
  {
    user_code: Type.String({ examples: ["WDJB-MJHT"] }),
    client_name: Type.String({
      description: "Name that the machine gives itself. It proves nothing.",
      examples: ["laptop"],
    }),
    address: Type.String({
      description: "Network address from which the login was started.",
      examples: ["203.0.113.7"],
    }),
    created_at: timestamp(),
    expires_at: timestamp(),
  },
  { $id: "DeviceLogin" },
);
export type DeviceLogin = Static<typeof DeviceLogin>;

export const DecideDeviceLogin = Type.Object(
  {
    user_code: userCode,
    allow: Type.Boolean({ description: "false: refuse the command line." }),
    scope: optional(KeyScope, "Scope of the key, at most that of the caller. Default workspace."),
  },
  { $id: "DecideDeviceLogin" },
);
export type DecideDeviceLogin = Static<typeof DecideDeviceLogin>;
