import { useState } from "react";
import type { KeyRole } from "../../../src/contract/administration/api-key.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { shellWord } from "../parts/copy-as.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Note } from "../parts/notes.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const roles: { value: Exclude<KeyRole, "listener">; text: string }[] = [
  { value: "reader", text: "reader: sees everything but the values of secrets" },
  { value: "deployer", text: "deployer: deploys and deletes as well" },
  { value: "admin", text: "admin: keys, members and listeners as well" },
  { value: "agent", text: "agent: gets tokens of users, and nothing else" },
];

const lives = { "": "for ever", "30": "30 days", "90": "90 days", "365": "a year" } as const;

/** Who may call the API. A key is shown once, when it is made. */
export function KeysPage() {
  const { client, session, workspaceId } = useSession();
  const queryKey = ["keys", workspaceId];
  return (
    <ResourcePage
      title="API keys"
      teach={<p>A key lets a program or a person call the API, as far as its role goes.</p>}
      queryKey={queryKey}
      read={(signal) => client.all("listApiKeys", { include_inactive: true }, { signal })}
      call={{ id: "listApiKeys", input: { limit: 100 }, cli: "npx pierhead admin keys list" }}
      idOf={({ id }) => id}
      columns={[
        { name: "Name", show: ({ id, name }) => (id === session.api_key_id ? <b>{name} (this one)</b> : name) },
        { name: "Begins", show: ({ prefix }) => <code>{prefix}</code> },
        { name: "Role", show: ({ role, scope }) => `${role}, ${scope}` },
        { name: "Status", show: ({ status }) => <Status of={status} /> },
        { name: "Used", show: ({ last_used_at }) => <Ago at={last_used_at} /> },
      ]}
      actions={({ id, name, status }) =>
        status === "active" && (
          <ActionButton
            text="Revoke"
            label={`Revoke ${name}`}
            isDanger
            confirm={`Whoever calls with ${name} is refused from now on, and its sessions of this console end.`}
            act={() => client.revokeApiKey({ api_key_id: id })}
            done={`${name} was revoked.`}
            renews={queryKey}
          />
        )
      }
    >
      <NewKey />
    </ResourcePage>
  );
}

function NewKey() {
  const { client, workspaceId } = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Exclude<KeyRole, "listener">>("deployer");
  const [days, setDays] = useState<keyof typeof lives>("90");
  const body = {
    name,
    role,
    workspace_id: workspaceId,
    ...(days !== "" && { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() }),
  };
  return (
    <FormDialog
      open="New key"
      title="New API key"
      submit="Create"
      isReady={name.trim() !== ""}
      call={{
        id: "createApiKey",
        input: { body },
        cli: `npx pierhead admin keys create ${shellWord(name || "NAME")} --role ${role} --for ${workspaceId}${days === "" ? "" : ` --expires ${days}d`}`,
      }}
      send={() => client.createApiKey({ body })}
      renews={["keys", workspaceId]}
      result={({ key }) => (
        <>
          <Note kind="good">This is the key. It is shown this once, and only its digest is kept.</Note>
          <CommandLine text={key} />
        </>
      )}
    >
      <TextField label="Name" value={name} onValue={setName} hint="What it is for, such as ci." />
      <SelectField label="Role" value={role} onValue={setRole} options={roles} />
      <SelectField
        label="Good for"
        value={days}
        onValue={setDays}
        options={Object.entries(lives).map(([value, text]) => ({ value: value as keyof typeof lives, text }))}
      />
    </FormDialog>
  );
}
