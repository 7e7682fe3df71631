import { operations } from "../../contract/operations.ts";
import { plainSchema } from "../../contract/plain-schema.ts";
import { answerTypes } from "../answer-types.ts";
import type { CommandSpec, LoadCommands } from "../command.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";

type Json = Record<string, unknown>;

const draft = "https://json-schema.org/draft/2020-12/schema";

/** Prints the JSON Schema of the `--json` answer of a command, or of all commands. */
export async function schema(
  session: Session,
  words: string[],
  _options: unknown,
  loadCommands: LoadCommands,
): Promise<void> {
  const described = describedCommands(await loadCommands());
  const wanted = words.join(" ");
  const notation = described.get(wanted);
  if (wanted !== "" && notation === undefined) {
    throw usageFailure(`"${wanted}" is not a command with a --json answer.`, "List the commands: pierhead --help");
  }
  const document =
    notation === undefined
      ? allAnswers(described)
      : { $schema: draft, title: `pierhead ${wanted} --json`, ...answerSchema(notation) };
  session.answer(document, () => JSON.stringify(document, null, 2));
}

/** Returns the notation of each command's answer by the words of the command. */
export function describedCommands(
  specs: readonly CommandSpec[],
  path: readonly string[] = [],
  found = new Map<string, string>(),
): Map<string, string> {
  for (const { name, hidden, json, commands = [] } of specs) {
    if (hidden) continue;
    const words = [...path, name];
    if (json !== undefined && json !== "none") found.set(words.join(" "), json);
    describedCommands(commands, words, found);
  }
  return found;
}

/** Returns the schema of an answer, or of the failure that a command prints in its place, with the types that it names. */
export function answerSchema(notation: string): Json {
  const defs: Record<string, Json> = {};
  const answer = createReader(defs)(`${notation} | {"error": Error}`);
  return { ...answer, $defs: defs };
}

function allAnswers(described: ReadonlyMap<string, string>): Json {
  const defs: Record<string, Json> = {};
  const read = createReader(defs);
  const commands = Object.fromEntries(
    [...described].map(([words, notation]) => [words, read(`${notation} | {"error": Error}`)]),
  );
  return { $schema: draft, title: "Answers of pierhead --json, by command", commands, $defs: defs };
}

/** Returns a function that converts the notation of a type. The types that it names are added to `defs`. */
function createReader(defs: Record<string, Json>): (notation: string) => Json {
  const ofApi = apiTypes();
  const add = (name: string) => {
    if (name in defs) return;
    const own = answerTypes[name];
    const found = own === undefined ? ofApi[name] : undefined;
    if (own === undefined && found === undefined) throw new Error(`there is no type ${name}`);
    defs[name] = {}; // types may name each other
    defs[name] = found ?? read(own as string);
    for (const inner of namesIn(found)) add(inner);
  };
  const read = (notation: string) => parseType(notation, add);
  return read;
}

/** Returns every named type of the API. */
function apiTypes(): Record<string, Json> {
  const named: Record<string, Json> = {};
  for (const { response } of Object.values(operations)) {
    if (response.schema !== null) plainSchema(response.schema, named, "#/$defs/");
  }
  return named;
}

const namesIn = (schema: Json | undefined): string[] =>
  [...JSON.stringify(schema ?? {}).matchAll(/"\$ref":"#\/\$defs\/(\w+)"/g)].map(([, name]) => name as string);

const plainTypes: Readonly<Record<string, Json>> = {
  any: {},
  string: { type: "string" },
  number: { type: "number" },
  boolean: { type: "boolean" },
  object: { type: "object" },
  null: { type: "null" },
  true: { const: true },
};

/** @param seen is called with each name of a type. @throws Error for text that is not in the notation. */
function parseType(notation: string, seen: (name: string) => void): Json {
  const tokens = notation.match(/"[^"]*"|\w+|[^\s]/g) ?? [];
  let at = 0;
  const take = (expected?: string): string => {
    const token = tokens[at];
    if (token === undefined || (expected !== undefined && token !== expected))
      throw new Error(`${notation}: ${expected ?? "a type"} is missing at ${tokens.slice(at).join(" ")}`);
    at += 1;
    return token;
  };
  const takes = (token: string) => {
    const isNext = tokens[at] === token;
    if (isNext) at += 1;
    return isNext;
  };
  const union = (): Json => {
    const all = [single()];
    while (takes("|")) all.push(single());
    return all.length === 1 ? (all[0] as Json) : { anyOf: all };
  };
  const single = (): Json => {
    const token = take();
    if (token.startsWith('"')) return { const: token.slice(1, -1) };
    if (token === "[") {
      const items = union();
      take("]");
      return { type: "array", items };
    }
    if (token === "{") return fields();
    if (!/^\w+$/.test(token)) throw new Error(`${notation}: ${token} is no type`);
    const plain = plainTypes[token];
    if (plain !== undefined) return plain;
    seen(token);
    return { $ref: `#/$defs/${token}` };
  };
  const fields = (): Json => {
    const properties: Record<string, Json> = {};
    const required: string[] = [];
    do {
      const key = take().slice(1, -1);
      if (!takes("?")) required.push(key);
      take(":");
      properties[key] = union();
    } while (takes(","));
    take("}");
    return { type: "object", properties, required };
  };
  const found = union();
  if (at < tokens.length) throw new Error(`${notation}: ${tokens.slice(at).join(" ")} is left`);
  return found;
}
