// The tools of a connector, with the effect of each.

import type { Json } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import type { InputProps } from '../../generic/resource.ts'
import { Checkbox, Fieldset } from '../../kit/fields.tsx'
import { Tag } from '../../kit/values.tsx'
import { type Key, t } from '../../texts.ts'
import look from './connected.module.css'

const READING = [
  'list_object_classes',
  'describe_object_class',
  'search_records',
  'get_record',
  'list_tasks',
  'get_task',
  'get_record_history',
]
const CHANGING = [
  'create_record',
  'update_record',
  'delete_record',
  'create_task',
  'update_task',
  'assign_task',
  'complete_task',
  'delete_task',
]
const KNOWN = [...READING, ...CHANGING]

/** Undefined for a tool that is newer than the console. */
const textOf = (tool: string): string | undefined => (KNOWN.includes(tool) ? t(`tool.${tool}` as Key) : undefined)
const toolsOf = (value: Json) => (Array.isArray(value) ? value.map(String) : [])

export function Tools({ value }: { value: Json }) {
  const tools = toolsOf(value)
  if (tools.length === 0) return <span className={generic.none}>{t('tools.none')}</span>
  const ordered = [...KNOWN.filter((tool) => tools.includes(tool)), ...tools.filter((tool) => !KNOWN.includes(tool))]
  return (
    <ul className={look.tools}>
      {ordered.map((tool) => (
        <li key={tool}>
          <code>{tool}</code>
          <span>
            {READING.includes(tool) && <Tag>{t('tools.reads')}</Tag>}
            {CHANGING.includes(tool) && <Tag value="pending">{t('tools.changes')}</Tag>}
          </span>
          <span>{textOf(tool)}</span>
        </li>
      ))}
    </ul>
  )
}

export function ToolsInput({ field, name, value, onChange, instance }: InputProps) {
  const all = (field.values ?? []).map((choice) => `${choice.value}`)
  // A new connector offers the reading tools by default.
  const chosen = value === null && !instance ? all.filter((tool) => READING.includes(tool)) : toolsOf(value)
  const set = (tool: string, isChosen: boolean) =>
    onChange(all.filter((one) => (one === tool ? isChosen : chosen.includes(one))))
  const group = (title: Key, tools: string[]) =>
    tools.length > 0 && (
      <Fieldset name={`${name}.${title}`} label={t(title)}>
        {tools.map((tool) => (
          <Checkbox
            key={tool}
            name={tool}
            label={tool}
            hint={textOf(tool)}
            value={chosen.includes(tool)}
            onChange={(isChosen) => set(tool, isChosen)}
          />
        ))}
      </Fieldset>
    )
  return (
    <>
      {group(
        'tools.reading',
        all.filter((tool) => READING.includes(tool)),
      )}
      {group(
        'tools.changing',
        all.filter((tool) => !READING.includes(tool)),
      )}
    </>
  )
}
