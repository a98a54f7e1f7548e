// The control for a field of a record or a question: a generic one, files, or a component.

import type { Fields, Json } from '../../api/shapes.ts'
import { Files, type Kept } from '../../generic/files.tsx'
import { FieldInput, type Props } from '../../generic/input.tsx'
import { limit } from '../../generic/limit.ts'
import type { InputProps } from '../../generic/resource.ts'
import { labelOf } from '../../texts.ts'
import { ComponentInput } from './component-input.tsx'

/** The files of a record: ids of stored ones, tokens of uploads. */
export function RecordInput(props: Props & { files?: { [id: string]: Kept } }) {
  const { field, name, value, onChange, isDisabled, files } = props
  const isFile = field.type === 'file' || field.type === 'document'
  if (field.custom && !isFile)
    return <ComponentInput field={field} custom={field.custom} name={name} value={value} onChange={onChange} />
  if (!isFile) return <FieldInput {...props} />
  return (
    <Files
      name={name}
      label={labelOf(field)}
      hint={field.description || undefined}
      isRequired={field.required}
      isDisabled={isDisabled}
      value={Array.isArray(value) ? value : []}
      most={limit(field, 'max_items') ?? field.max_num_of_files ?? 1}
      known={files}
      onChange={(now) => onChange(now.length > 0 ? now : null)}
    />
  )
}

/** The input of a record for use in a form. The names of its files are in the labels of the instance. */
export function RecordFormInput({ field, name, value, onChange, instance }: InputProps) {
  const labels = instance?._meta?.labels as { fields?: Fields; files?: { [id: string]: Kept } } | undefined
  return (
    <RecordInput
      field={field}
      name={name}
      value={value}
      onChange={onChange}
      label={labels?.fields?.[field.alias] as Json}
      {...(labels?.files && { files: labels.files })}
    />
  )
}
