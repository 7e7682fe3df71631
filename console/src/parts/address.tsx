import { Copy } from "lucide-react";
import { copyText } from "./copy-as.tsx";
import { IconButton } from "./icon-button.tsx";
import { useToasts } from "./toasts.tsx";

/** The address of a deployment, with a button to copy it. */
export function Address({ url }: { url: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <>
      <a href={url} className="link mono clip" rel="noreferrer" title={url}>
        {url.replace(/^https?:\/\//, "")}
      </a>
      <IconButton
        name="Copy address"
        icon={<Copy size={14} />}
        onClick={() => void copyText(url).then(() => notify("Address copied."), notifyError)}
      />
    </>
  );
}

/** A long text, or the start of it, with a button to copy all of it. A narrow column cuts its end off. */
export function CopyText({ name, text, shown = text }: { name: string; text: string; shown?: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <span className="copy-text">
      <span className="mono clip" title={text}>
        {shown}
      </span>
      <IconButton
        name={`Copy ${name}`}
        icon={<Copy size={12} />}
        onClick={() => void copyText(text).then(() => notify(`${name} copied.`), notifyError)}
      />
    </span>
  );
}
