import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Agent, segment } from "../../agent/client.ts";
import { type Assistant, isOwn, type Values } from "../../agent/types.ts";
import { queries, textOf } from "../../server.ts";
import { useToasts } from "../toasts.tsx";

interface Props {
  agent: Agent;
  deploymentId: string;
  assistant: Assistant | undefined;
  /** Returns the values that were typed, or null if they cannot be read. */
  values: () => Values | null;
  onAssistant: (id: string | null) => void;
}

/** Keeps a configuration as an assistant, which every client of the agent can run by its id. */
export function AssistantActs({ agent, deploymentId, assistant, values, onAssistant }: Props) {
  const { notify } = useToasts();
  const [name, setName] = useState("");
  const isChangeable = assistant !== undefined && isOwn(assistant);
  const path = `/assistants/${segment(assistant?.assistant_id ?? "")}`;
  const act = useMutation({
    mutationFn: (send: () => Promise<{ id: string | null; said: string; made?: Assistant } | null>) => send(),
    onSuccess: (done) => {
      if (done === null) return;
      notify(done.said);
      const queryKey = ["agent", deploymentId, "assistants"];
      const { made } = done;
      // The choice needs its name, also if the list cannot be read again.
      if (made !== undefined)
        queries.setQueriesData<Assistant[] | null>({ queryKey }, (known) => known && [...known, made]);
      void queries.invalidateQueries({ queryKey }).then(() => onAssistant(done.id));
    },
  });
  if (assistant === undefined) return null;
  const create = async () => {
    const configurable = values();
    if (configurable === null) return null;
    const body = { graph_id: assistant.graph_id, name: name.trim(), config: { configurable } };
    const made = await agent.call<Assistant>("POST", "/assistants", body);
    return { id: made.assistant_id, said: `Made the assistant ${body.name}.`, made };
  };
  const change = async () => {
    const configurable = values();
    if (configurable === null) return null;
    await agent.call("PATCH", path, { config: { configurable } });
    return { id: assistant.assistant_id, said: `Changed the assistant ${assistant.name ?? ""}.` };
  };
  const remove = async () => {
    await agent.call("DELETE", path);
    return { id: null, said: `Deleted the assistant ${assistant.name ?? ""}.` };
  };
  return (
    <details className="assistant-acts">
      <summary>Keep as an assistant</summary>
      <p className="soft">
        An assistant is a graph with a configuration. Every client of this agent can run it by its id.
      </p>
      <div className="row">
        <input
          aria-label="Name of the assistant"
          placeholder="Name"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <button type="button" disabled={name.trim() === "" || act.isPending} onClick={() => act.mutate(create)}>
          Save as new
        </button>
      </div>
      {isChangeable && (
        <div className="row">
          <button type="button" disabled={act.isPending} onClick={() => act.mutate(change)}>
            Save to {assistant.name}
          </button>
          <button type="button" className="danger" disabled={act.isPending} onClick={() => act.mutate(remove)}>
            Delete {assistant.name}
          </button>
        </div>
      )}
      {act.isError && (
        <p role="alert" className="bad-text">
          {textOf(act.error)}
        </p>
      )}
    </details>
  );
}
