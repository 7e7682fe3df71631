import pg from "pg";

/** A fragment of SQL with its bound values. Fragments nest: a value of a template that is a fragment becomes part of the text. */
export class Sql {
  /** The text around the values: one string more than there are values. */
  readonly strings: readonly string[];
  readonly values: readonly unknown[];

  constructor(strings: readonly string[], values: readonly unknown[]) {
    this.strings = strings;
    this.values = values;
  }

  /** Text for PostgreSQL, with `$1`, `$2` and so on for the values. */
  get text(): string {
    const cached = textByTemplate.get(this.strings);
    if (cached !== undefined) return cached;
    let text = this.strings[0] ?? "";
    for (let index = 1; index < this.strings.length; index += 1) text += `$${index}${this.strings[index]}`;
    // A template literal yields the same array on every run. Composed fragments have new arrays, so caching them gains nothing.
    if ("raw" in this.strings) textByTemplate.set(this.strings, text);
    return text;
  }
}

const textByTemplate = new WeakMap<readonly string[], string>();

/**
 * Tag of SQL templates. Binds every value, except fragments and what the functions below make.
 *
 * ```ts
 * await db.query<{ id: string }>(sql`select id from deployments where tenant_id = ${tenantId} and ${condition}`);
 * ```
 */
export const sql = Object.assign(template, { raw, join, identifier, literal });

function template(strings: TemplateStringsArray, ...values: unknown[]): Sql {
  return values.some((value) => value instanceof Sql) ? compose(strings, values) : new Sql(strings, values);
}

/** Returns a fragment with this text, unquoted. Never pass user input. */
function raw(text: string): Sql {
  return new Sql([text], []);
}

/** Returns values or fragments with a separator between them: `sql.join(conditions, " and ")`. Empty for an empty list. */
function join(values: readonly unknown[], separator = ", "): Sql {
  if (values.length === 0) return raw("");
  return compose(["", ...Array<string>(values.length - 1).fill(separator), ""], values);
}

/** Returns the quoted name of a table or column. A dot separates schema or alias from the name. */
function identifier(name: string): Sql {
  return raw(name.split(".").map(pg.escapeIdentifier).join("."));
}

/** Returns a quoted constant, for places where PostgreSQL accepts no bound value or the planner needs to see the constant. */
function literal(value: string | number | boolean): Sql {
  return raw(typeof value === "string" ? pg.escapeLiteral(value) : String(value));
}

function compose(strings: readonly string[], parts: readonly unknown[]): Sql {
  const texts = [strings[0] ?? ""];
  const values: unknown[] = [];
  for (const [index, part] of parts.entries()) {
    const rest = strings[index + 1] ?? "";
    if (part instanceof Sql) {
      const [first = "", ...others] = part.strings;
      texts.push(`${texts.pop()}${first}`, ...others);
      texts.push(`${texts.pop()}${rest}`);
      values.push(...part.values);
    } else {
      values.push(part);
      texts.push(rest);
    }
  }
  return new Sql(texts, values);
}
