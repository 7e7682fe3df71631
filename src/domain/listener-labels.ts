import { errors } from "../contract/error.ts";
import { listenerLabelsMax } from "./limits.ts";

export type Labels = Readonly<Record<string, string>>;

/** A name of at most 63 characters. Keys have one after their prefix, and values are one or empty. */
const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const prefixPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const prefixLengthMax = 253;

/**
 * Checks labels against Kubernetes' syntax.
 * @param field the labels' name in errors.
 * @throws ApiError 400 `invalidField`.
 * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
 */
export function checkLabels(field: string, sent: Record<string, string>): Record<string, string> {
  const entries = Object.entries(sent);
  if (entries.length > listenerLabelsMax) {
    throw errors.invalidField(field, `must have at most ${listenerLabelsMax} labels.`);
  }
  for (const [key, value] of entries) {
    if (!isKey(key))
      throw errors.invalidField(field, `contains ${quoted(key)}, which is not a valid Kubernetes label key.`);
    if (value !== "" && !namePattern.test(value)) {
      throw errors.invalidField(field, `has the value ${quoted(value)}, which is not a valid Kubernetes label value.`);
    }
  }
  return sent;
}

function isKey(key: string): boolean {
  const slash = key.indexOf("/");
  if (slash === -1) return namePattern.test(key);
  const prefix = key.slice(0, slash);
  return prefix.length <= prefixLengthMax && prefixPattern.test(prefix) && namePattern.test(key.slice(slash + 1));
}

/** Returns whether labels contain all labels of a selector. An empty selector fits all. */
export function hasLabels(labels: Labels, selector: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
}

/** Formats labels as `gpu=l4, region=eu`. */
export function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .toSorted()
    .join(", ");
}

const quoted = (text: string) => JSON.stringify(text.slice(0, 80));

/**
 * Returns whether a listener that labels choose can take a deployment into a namespace.
 * @param offered namespaces of the listener. null: any.
 * @param wanted null: the deployment names none, so the listener must have only one.
 */
export const takesNamespace = (offered: readonly string[] | null, wanted: string | null): boolean =>
  wanted === null ? (offered ?? []).length <= 1 : offered === null || offered.includes(wanted);
