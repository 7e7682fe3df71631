import { Copy } from "lucide-react";
import { copyText } from "./copy-as.tsx";
import { IconButton } from "./icon-button.tsx";
import { shortId } from "./text.ts";
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

/** An id by its first characters, with a button to copy all of it. */
export function CopyText({ name, text }: { name: string; text: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <span className="copy-text">
      <span className="mono" title={text}>
        {shortId(text)}
      </span>
      <IconButton
        name={`Copy ${name}`}
        icon={<Copy size={12} />}
        onClick={() => void copyText(text).then(() => notify(`${name} copied.`), notifyError)}
      />
    </span>
  );
}

/** An address to enter elsewhere. A narrow column cuts its end off, and the button copies all of it. */
export function CopyUrl({ name, url }: { name: string; url: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <span className="copy-text copy-url">
      <code className="clip" title={url}>
        {url}
      </code>
      <IconButton
        name={`Copy ${name}`}
        icon={<Copy size={12} />}
        onClick={() => void copyText(url).then(() => notify(`${name} copied.`), notifyError)}
      />
    </span>
  );
}
