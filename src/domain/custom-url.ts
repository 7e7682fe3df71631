import { errors } from "../contract/error.ts";
import { urlLengthMax } from "./limits.ts";

/**
 * Checks the address that a user chose for an `external_docker` deployment. A route to it at the server's own host would get the keys of
 * all users.
 * @param ownHost of the server's public address; the console does not know it
 * @throws ApiError 400 `invalidField`.
 */
export function checkCustomUrl(text: string, ownHost: string | null = null): void {
  const url = text.length <= urlLengthMax && URL.canParse(text) ? new URL(text) : null;
  const isUsable =
    url !== null && ["https:", "http:"].includes(url.protocol) && url.username === "" && url.password === "";
  if (!isUsable) {
    throw errors.invalidField(
      "source_config.custom_url",
      "must be an http or https URL without a user name or password.",
    );
  }
  if (url.hostname === ownHost)
    throw errors.invalidField("source_config.custom_url", "must not have the host of Pierhead. Use one of your own.");
}
