import pg from "pg";

/** A piece of SQL with the values bound to it. Pieces nest: a value of a template that is itself a piece becomes part of the text. */
export class Sql {
  /** The text between the values: always one more than there are values. */
  readonly strings: readonly string[];
  readonly values: readonly unknown[];

  constructor(strings: readonly string[], values: readonly unknown[]) {
    this.strings = strings;
    this.values = values;
  }

  /** The text as PostgreSQL prepares it, with `$1`, `$2` and so on for the values. */
  get text(): string {
    const cached = textByTemplate.get(this.strings);
    if (cached !== undefined) return cached;
    let text = this.strings[0] ?? "";
    for (let index = 1; index < this.strings.length; index += 1) text += `$${index}${this.strings[index]}`;
    // A template is the same array at each run of its line; the arrays of composed pieces are not worth a place here.
    if ("raw" in this.strings) textByTemplate.set(this.strings, text);
    return text;
  }
}

const textByTemplate = new WeakMap<readonly string[], string>();

/**
 * The tag of SQL templates. Values are bound, never inserted into the text, except the pieces made by the functions below.
 *
 * ```ts
 * await db.query<{ id: string }>(sql`select id from deployments where tenant_id = ${tenantId} and ${condition}`);
 * ```
 */
export const sql = Object.assign(template, { raw, join, identifier, literal });

function template(strings: TemplateStringsArray, ...values: unknown[]): Sql {
  return values.some((value) => value instanceof Sql) ? compose(strings, values) : new Sql(strings, values);
}

/** A piece whose text is taken as it is. Never pass anything that a user wrote. */
function raw(text: string): Sql {
  return new Sql([text], []);
}

/** The values or pieces with a separator between them: `sql.join(conditions, " and ")`. Of none, an empty piece. */
function join(values: readonly unknown[], separator = ", "): Sql {
  if (values.length === 0) return raw("");
  return compose(["", ...Array<string>(values.length - 1).fill(separator), ""], values);
}

/** The quoted name of a table or column; a dot separates schema or alias from it. */
function identifier(name: string): Sql {
  return raw(name.split(".").map(pg.escapeIdentifier).join("."));
}

/** A constant as part of the text, where PostgreSQL takes no bound value or its planner shall see the constant. */
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
