import { cookieName, sessionCookie, signInCookie } from "../contract/administration/session.ts";

/** All names of the console's cookies. Agents neither see nor set them. */
export const namesOfConsole: ReadonlySet<string> = new Set(
  [sessionCookie, signInCookie].flatMap((name) => [name, cookieName(name, true)]),
);
