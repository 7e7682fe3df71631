import { type DragEvent, useRef, useState } from "react";
import { filesOfDrop, filesOfInput, packed, type SourceFile } from "../archive.ts";
import { useToasts } from "./toasts.tsx";

/** Takes a folder, by dropping or choosing it; what does not belong to a source is left out and counted. */
export function DropFolder({ files, onFiles }: { files: SourceFile[]; onFiles: (files: SourceFile[]) => void }) {
  const [isOver, setOver] = useState(false);
  const [leftOut, setLeftOut] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const { fail } = useToasts();
  const take = async (found: Promise<SourceFile[]>) => {
    try {
      const { kept, leftOut: ignored } = await packed(await found);
      setLeftOut(ignored);
      onFiles(kept);
    } catch (error) {
      fail(error);
    }
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void take(filesOfDrop(event.dataTransfer.items));
  };
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button in it does the same for the keyboard.
    <div
      className={isOver ? "drop over" : "drop"}
      onDrop={onDrop}
      onDragLeave={() => setOver(false)}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
    >
      <p>
        {files.length === 0
          ? "Drop the folder of your agent here, or"
          : `${files.length} files, ${Math.ceil(bytes / 1_024)} KiB.`}
      </p>
      <button type="button" onClick={() => input.current?.click()}>
        Choose a folder
      </button>
      <input
        ref={(element) => {
          input.current = element;
          element?.setAttribute("webkitdirectory", "");
        }}
        type="file"
        hidden
        multiple
        aria-label="Folder"
        onChange={(event) => event.target.files && void take(Promise.resolve(filesOfInput(event.target.files)))}
      />
      <p className="soft">
        Left out: what .gitignore names, node_modules, and .env files, whose place is the environment below.
        {leftOut > 0 && ` ${leftOut} files here.`}
      </p>
    </div>
  );
}
