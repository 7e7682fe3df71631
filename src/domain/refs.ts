import { errors } from "../contract/error.ts";

/** Git refs as this API writes them: a bare branch name, `refs/tags/<tag>`, or a commit hash (contract 4.3). */

/** `refs/heads/x` is another spelling of `x`. */
export function normaliseRef(ref: string): string {
  return ref.startsWith("refs/heads/") ? ref.slice("refs/heads/".length) : ref;
}

export function isTag(ref: string): boolean {
  return ref.startsWith("refs/tags/");
}

/** Could be a commit: a branch of that name, if there is one, wins. */
export function looksLikeCommit(ref: string): boolean {
  return /^[0-9a-f]{7,40}$/.test(ref);
}

/** @throws ApiError 400 `invalidField` when git could not have such a ref. */
export function checkRef(field: string, ref: string): void {
  if (!isValidRef(ref)) throw errors.invalidField(field, "must be a branch name, refs/tags/<tag> or a commit hash.");
}

/** Ref names of `git check-ref-format`, and no leading dash, so that a ref is never taken for an option. */
export function isValidRef(ref: string): boolean {
  if (ref.length === 0 || ref.length > 255 || ref === "@") return false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: git forbids control characters in ref names.
  if (/[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[/.]$/.test(ref)) return false;
  return (
    ref.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock")) && !/^refs\/tags\/?$/.test(ref)
  );
}
