/** Which state each answer was, by the tag that came with it. Goes with the answer. */
const tags = new WeakMap<object, string>();

/** Proxies that compress mark a tag as weak (`W/`), which no change may be compared by; the server makes strong ones only. */
export function rememberTag(answer: unknown, tag: string | null): void {
  if (typeof answer === "object" && answer !== null && tag !== null) tags.set(answer, tag.replace(/^W\//, ""));
}

/** Undefined for what no answer of a client is, or came without a tag. */
export const tagOf = (answer: object): string | undefined => tags.get(answer);
