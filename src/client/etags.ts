/** ETags of the responses of this client, by response. */
const tags = new WeakMap<object, string>();

/** Stores the ETag of a response. Compressing proxies mark it as weak (`W/`), which `If-Match` rejects. The server only makes strong ones. */
export function rememberTag(answer: unknown, tag: string | null): void {
  if (typeof answer === "object" && answer !== null && tag !== null) tags.set(answer, tag.replace(/^W\//, ""));
}

/** Returns the ETag of a response, or undefined for any other object and for a response without an ETag. */
export const tagOf = (answer: object): string | undefined => tags.get(answer);
