import { pageStyle, htmlText as text } from "../http/page-style.ts";

type Json = Record<string, unknown>;

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  description?: string;
  schema: Json;
}

interface DocumentedOperation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: unknown[];
  parameters?: Parameter[];
  requestBody?: { required: boolean; content: Record<string, Media> };
  responses: Record<string, Answer | { $ref: string }>;
}

interface Answer {
  description: string;
  content?: Record<string, Media>;
}

interface Media {
  schema?: Json;
  example?: unknown;
  examples?: Record<string, { $ref: string }>;
}

interface Document {
  info: { title: string; version: string; description: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, DocumentedOperation>>;
  components: {
    schemas: Record<string, Json>;
    responses: Record<string, Answer>;
    examples: Record<string, { value: unknown }>;
  };
}

/**
 * Returns a reference page for people, made from an OpenAPI document: operations by tag, then schemas. No scripts.
 * @param documentUrl address of the document for programs
 */
export function referencePage(openapi: object, prefix: string, documentUrl = `${prefix}/openapi.json`): string {
  const { info, tags, paths, components } = openapi as Document;
  const operations = Object.entries(paths).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({ path: prefix + path, verb, operation })),
  );
  const groups = tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return `<section><h2 id="${text(name)}">${text(name)}</h2>${own.map((one) => operationBlock(one, components)).join("")}</section>`;
  });
  const schemas = Object.entries(components.schemas).map(([name, schema]) => schemaBlock(name, schema));
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text(info.title)} API</title><style>${pageStyle}</style></head><body>
<header><h1>${text(info.title)} API <small>${text(info.version)}</small></h1><p>${text(info.description)}</p>
<p>Send an API key as <code>X-Api-Key</code>. Machine-readable: <a href="${text(documentUrl)}">openapi.json</a>.</p>
<nav>${tags.map(({ name }) => `<a href="#${text(name)}">${text(name)}</a>`).join(" ")} <a href="#schemas">Schemas</a></nav></header>
<main>${groups.join("")}<section><h2 id="schemas">Schemas</h2>${schemas.join("")}</section></main></body></html>
`;
}

/** Returns a description as HTML. Descriptions are Markdown in which only code is marked. */
const prose = (markdown: string) => text(markdown).replaceAll(/`([^`]+)`/g, "<code>$1</code>");

interface Shown {
  path: string;
  verb: string;
  operation: DocumentedOperation;
}

function operationBlock({ path, verb, operation }: Shown, components: Document["components"]): string {
  const { operationId, summary, security, parameters = [], requestBody, responses } = operation;
  const bodies = Object.entries(requestBody?.content ?? {});
  const answers = Object.entries(responses).map(([status, written]) => {
    const answer = "$ref" in written ? components.responses[nameIn(written.$ref)] : written;
    return answer === undefined ? "" : answerRow(status, answer, components);
  });
  return `<details id="${text(operationId)}"><summary><span class="verb">${verb.toUpperCase()}</span> <code>${text(path)}</code> ${prose(summary)}</summary>
${security?.length === 0 ? `<p class="note">No key needed.</p>` : ""}
${parameters.length === 0 ? "" : `<h4>Parameters</h4><table>${parameters.map(parameterRow).join("")}</table>`}
${bodies.map(([type, media]) => `<h4>Body</h4><p><code>${text(type)}</code> ${mediaText(media, components)}</p>`).join("")}
<h4>Responses</h4><table>${answers.join("")}</table></details>`;
}

function answerRow(status: string, { description, content }: Answer, components: Document["components"]): string {
  const media = Object.values(content ?? {})[0];
  const isRefusal = Number(status) >= 400;
  const what = media === undefined ? "" : isRefusal ? refusalsText(media, components) : mediaText(media, components);
  return row([text(status), what, isRefusal ? "" : prose(description)]);
}

/** Returns the type with an example below it. */
function mediaText(media: Media, components: Document["components"]): string {
  const [named] = Object.values(media.examples ?? {});
  const example = named === undefined ? media.example : components.examples[nameIn(named.$ref)]?.value;
  const shown = example === undefined ? "" : `<pre>${text(JSON.stringify(example, null, 2))}</pre>`;
  return `${media.schema === undefined ? "bytes" : typeText(media.schema)}${shown}`;
}

/** Returns the code and text of each error. */
function refusalsText({ examples = {} }: Media, components: Document["components"]): string {
  const lines = Object.entries(examples).map(([code, { $ref }]) => {
    const detail = (components.examples[nameIn($ref)]?.value as { detail: unknown } | undefined)?.detail;
    return `<code>${text(code)}</code> ${text(typeof detail === "string" ? detail : JSON.stringify(detail))}`;
  });
  return lines.join("<br>");
}

const nameIn = ($ref: string) => $ref.split("/").at(-1) ?? "";

function parameterRow(parameter: Parameter): string {
  const need = parameter.required ? "required" : "";
  return row([
    `<code>${text(parameter.name)}</code>`,
    parameter.in,
    typeText(parameter.schema),
    need,
    prose(parameter.description ?? ""),
  ]);
}

function schemaBlock(name: string, schema: Json): string {
  const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Json>);
  const required = (schema["required"] ?? []) as string[];
  const rows = properties.map(([field, one]) =>
    row([
      `<code>${text(field)}</code>`,
      typeText(one),
      required.includes(field) && one["default"] === undefined ? "required" : "",
      prose(String(one["description"] ?? "")),
    ]),
  );
  return `<details id="schema-${text(name)}"><summary><code>${text(name)}</code> ${prose(String(schema["description"] ?? ""))}</summary><table>${rows.join("")}</table></details>`;
}

const row = (cells: string[]) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;

/** Returns a short description of a type, with links to named types and the bounds that matter. */
function typeText(schema: Json): string {
  const { $ref, anyOf, type, items, format, additionalProperties, minimum, maximum, minLength } = schema;
  if (typeof $ref === "string") {
    const name = text(nameIn($ref));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (Array.isArray(anyOf)) return anyOf.map((member: Json) => typeText(member)).join(" or ");
  if (Array.isArray(schema["enum"]))
    return schema["enum"].map((value) => `<code>${text(String(value))}</code>`).join(" ");
  if (type === "array") return `list of ${typeText((items ?? {}) as Json)}`;
  if (type === "object" && typeof additionalProperties === "object") {
    return `map to ${typeText(additionalProperties as Json)}`;
  }
  const bounds = [
    minimum === undefined ? "" : `&ge; ${String(minimum)}`,
    maximum === undefined ? "" : `&le; ${String(maximum)}`,
    minLength === undefined ? "" : `at least ${String(minLength)} character`,
    schema["default"] === undefined ? "" : `default ${text(String(schema["default"]))}`,
  ].filter((bound) => bound !== "");
  return [text(String(format ?? type ?? "any")), ...bounds].join(", ");
}
