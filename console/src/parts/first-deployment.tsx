import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight, Bot, FolderUp, GitBranch, LayoutTemplate, SquareTerminal } from "lucide-react";
import { useState } from "react";
import { baseUrl } from "../server.ts";
import { useSession } from "../session.tsx";
import { CommandLine } from "./command-line.tsx";
import { Tabs } from "./fields.tsx";

/** The ways to create the first deployment. Each works as shown, and the list appears when it is there. */
export function FirstDeployment() {
  const { mayChange } = useSession();
  if (!mayChange)
    return (
      <section className="card blank">
        <h2>No deployments yet</h2>
        <p>Your role is read-only. Deployments of others appear here.</p>
      </section>
    );
  return (
    <div className="first">
      <div>
        <h2 className="hero">Deploy your first agent</h2>
        <p className="lead">
          No deployments yet. Pierhead takes the source of an agent server, builds it, gives it an address and keeps it
          answering. Choose where yours comes from.
        </p>
      </div>
      <div className="first-ways">
        <Templates />
        <section className="card">
          <GitBranch size={17} className="first-icon" />
          <h3>Import a repository</h3>
          <p className="soft">Pierhead shows what it finds before it builds, and can deploy every push.</p>
          <div className="row">
            <Link to="/host/new" search={{ from: "github" }} className="button">
              Choose a repository
            </Link>
            <Link to="/host/new" search={{ from: "internal_source" }} className="button quiet">
              <FolderUp size={15} /> Upload a folder
            </Link>
          </div>
        </section>
        <Terminal />
      </div>
      <p className="beacon" role="status">
        <i aria-hidden="true" /> Waiting for a first deployment. It appears here, wherever it comes from.
      </p>
    </div>
  );
}

function Templates() {
  const { client } = useSession();
  const found = useQuery({ queryKey: ["templates"], queryFn: () => client.listTemplates(), staleTime: 60_000 });
  return (
    <section className="card first-templates">
      <LayoutTemplate size={17} className="first-icon" />
      <h3>Start from a template</h3>
      <p className="soft">A working agent to talk to, and to take apart.</p>
      <ul className="plain-list">
        {(found.data?.templates ?? []).map(({ id, name, description }) => (
          <li key={id}>
            <Link to="/host/new" search={{ template: id }}>
              <Bot size={15} />
              <span>
                <b>{name}</b>
                <small className="clip">{description}</small>
              </span>
              <ArrowRight size={14} />
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

const body =
  '{"name":"hello","source":"internal_template","source_config":{"template_id":"node-server"},"source_revision_config":{}}';
const ways = {
  pierhead: {
    about: "In the folder of your project. What Pierhead finds there is used.",
    commands: [`npx pierhead login ${baseUrl}`, "npx pierhead deploy ."],
  },
  curl: {
    about: "With an API key in PIERHEAD_API_KEY.",
    commands: [
      `curl -X POST '${baseUrl}/v2/deployments' -H "X-Api-Key: $PIERHEAD_API_KEY" -H 'Content-Type: application/json' -d '${body}'`,
    ],
  },
};

function Terminal() {
  const [way, setWay] = useState<keyof typeof ways>("pierhead");
  return (
    <section className="card">
      <SquareTerminal size={17} className="first-icon" />
      <div className="row spread">
        <h3>From your terminal</h3>
        <Tabs
          label="Program"
          value={way}
          onValue={setWay}
          options={[
            { value: "pierhead", text: "pierhead" },
            { value: "curl", text: "curl" },
          ]}
        />
      </div>
      <p className="soft">{ways[way].about}</p>
      {ways[way].commands.map((text) => (
        <CommandLine key={text} text={text} />
      ))}
    </section>
  );
}
