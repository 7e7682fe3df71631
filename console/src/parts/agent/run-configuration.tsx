import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Agent, segment } from "../../agent/client.ts";
import type { Assistant, Values } from "../../agent/types.ts";
import { fieldsOfSchema, readFields, textsOf, type ValueField } from "../../agent/value-fields.ts";
import { Dialog } from "../dialog.tsx";
import { Tabs } from "../fields.tsx";
import { AssistantActs } from "./assistant-acts.tsx";
import { jsonOf, parseJson } from "./json-text.tsx";
import { ValueForm } from "./value-form.tsx";

interface Props {
  agent: Agent;
  deploymentId: string;
  assistant: Assistant | undefined;
  /** The nodes of the graph, as far as they are known. */
  nodes: readonly string[];
  config: Record<string, unknown>;
  onSave: (config: Record<string, unknown>) => void;
  onClose: () => void;
  /** An assistant was made, changed or deleted. null: deleted. */
  onAssistant: (id: string | null) => void;
}

interface Typed {
  way: "form" | "json";
  json: string;
  texts: Record<string, string>;
}

const configurableOf = (config: unknown): Values =>
  ((config as { configurable?: Values | null } | null | undefined)?.configurable ?? {}) as Values;

/** Asks what the next runs get beside their input, and keeps it as an assistant. */
export function RunConfiguration(props: Props) {
  const { agent, deploymentId, assistant, nodes, config, onSave, onClose, onAssistant } = props;
  const given = { ...configurableOf(assistant?.config), ...configurableOf(config["config"]) };
  const [typed, setTyped] = useState<Typed | null>(null);
  const { fields, schemas } = useConfigFields({
    agent,
    deploymentId,
    assistant,
    given,
    isAsked: typed?.way === "form",
  });
  // An agent may take seconds to read its own code, so it is asked once, when a user wants the form.
  const way = typed?.way ?? (fields.length > 0 ? "form" : "json");
  const shown: Typed = typed ?? { way, json: jsonOf(given), texts: {} };
  const [before, setBefore] = useState(() => (config["interrupt_before"] as string[] | undefined) ?? []);
  const [problem, setProblem] = useState<string | null>(null);
  /** Returns what was typed, or null after it has shown why that cannot be read. */
  const values = (): Values | null => {
    const found = read(fields.length === 0 ? { ...shown, way: "json" } : shown, fields, given);
    setProblem("problem" in found ? found.problem : null);
    return "problem" in found ? null : found.value;
  };
  const save = () => {
    const configurable = values();
    if (configurable === null) return;
    onSave({
      ...(Object.keys(configurable).length > 0 && { config: { configurable } }),
      ...(before.length > 0 && { interrupt_before: before }),
    });
  };
  const turn = (to: Typed["way"]) => {
    const found = values();
    if (found !== null)
      setTyped({ way: to, json: jsonOf(found), texts: { ...shown.texts, ...textsIn(fields, found) } });
  };
  return (
    <Dialog title="Configuration of the next runs" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <Tabs
          label="Configure by"
          value={way}
          onValue={turn}
          options={[
            { value: "form", text: "Form" },
            { value: "json", text: "JSON" },
          ]}
        />
        {way === "form" ? (
          <>
            <FormState schemas={schemas} count={fields.length} />
            <ValueForm
              fields={fields}
              texts={{ ...textsOf(fields), ...shown.texts }}
              onText={(key, text) => setTyped({ ...shown, texts: { ...shown.texts, [key]: text } })}
            />
            {problem !== null && <p className="bad-text">{problem}</p>}
          </>
        ) : (
          <label className="field">
            <span>Configurable values (JSON)</span>
            <textarea value={shown.json} onChange={(event) => setTyped({ ...shown, json: event.target.value })} />
            <small className={problem === null ? "soft" : "bad-text"}>
              {problem ?? "The agent reads them as config.configurable."}
            </small>
          </label>
        )}
        <StopBefore nodes={nodes} chosen={before} onChosen={setBefore} />
        <AssistantActs {...{ agent, deploymentId, assistant, values, onAssistant }} />
        <div className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Use for the next run
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function read({ way, json, texts }: Typed, fields: readonly ValueField[], given: Values) {
  if (way === "json") {
    const parsed = parseJson(json.trim() === "" ? "{}" : json);
    return "problem" in parsed ? parsed : { value: (parsed.value ?? {}) as Values };
  }
  const found = readFields(fields, { ...textsOf(fields), ...texts });
  if ("problem" in found) return found;
  // Values without a field stay.
  const others = Object.entries(given).filter(([key]) => fields.every((field) => field.key !== key));
  return { value: { ...Object.fromEntries(others), ...found.value } };
}

function textsIn(fields: readonly ValueField[], values: Values): Record<string, string> {
  const known = fields.filter(({ key }) => values[key] !== undefined);
  return Object.fromEntries(
    known.map(({ key }) => [key, typeof values[key] === "string" ? values[key] : jsonOf(values[key])]),
  );
}

interface Asked {
  agent: Agent;
  deploymentId: string;
  assistant: Assistant | undefined;
  given: Values;
  isAsked: boolean;
}

/** Asks the agent which values its graph reads. */
function useConfigFields({ agent, deploymentId, assistant, given, isAsked }: Asked) {
  const id = assistant?.assistant_id;
  const schemas = useQuery({
    queryKey: ["agent", deploymentId, "schemas", id],
    queryFn: ({ signal }) => readSchemas(agent, id ?? "", signal),
    enabled: isAsked && id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { config_schema: config, context_schema: context } = schemas.data ?? {};
  const fields = fieldsOfSchema(config, given);
  return { schemas, fields: fields.length > 0 ? fields : fieldsOfSchema(context, given) };
}

function FormState({ schemas, count }: { schemas: ReturnType<typeof useConfigFields>["schemas"]; count: number }) {
  if (schemas.isPending) return <p className="soft">Asking the agent which values its graph reads …</p>;
  if (schemas.isError) return <p className="bad-text">The agent does not describe its values. Use JSON.</p>;
  return count === 0 ? <p className="soft">The graph names no values that it reads. Use JSON.</p> : null;
}

/** What an agent says of the values that a graph takes. */
export type Schemas = Partial<Record<"input_schema" | "config_schema" | "context_schema", unknown>>;

export async function readSchemas(agent: Agent, assistantId: string, signal: AbortSignal): Promise<Schemas> {
  const path = `/assistants/${segment(assistantId)}/schemas`;
  return (await agent.call<Schemas | null>("GET", path, undefined, signal)) ?? {};
}

function StopBefore(props: { nodes: readonly string[]; chosen: string[]; onChosen: (nodes: string[]) => void }) {
  const { nodes, chosen, onChosen } = props;
  const all = [...new Set([...nodes, ...chosen])];
  if (all.length === 0) return null;
  return (
    <fieldset className="stops">
      <legend>Stop before these nodes</legend>
      {all.map((name) => (
        <label key={name} className="row">
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={({ target }) =>
              onChosen(target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
            }
          />
          <span className="mono">{name}</span>
        </label>
      ))}
    </fieldset>
  );
}
