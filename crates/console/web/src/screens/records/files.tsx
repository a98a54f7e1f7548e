// The files of a record, by the labels of a record that was made flat.

import type { Instance, Json } from '../../api/shapes.ts'
import look from '../../generic/files.module.css'
import { FileLine, Files as FilesInput } from '../../generic/files.tsx'
import type { InputProps } from '../../generic/resource.ts'
import css from '../../kit/controls.module.css'
import { labelOf, t } from '../../texts.ts'
import { filesOf } from './shape.ts'

export function Files({ value, instance }: { value: Json; instance: Instance }) {
  const known = filesOf(instance)
  const ids = Array.isArray(value) ? value : []
  if (ids.length === 0) return <span className={css.optional}>{t('none')}</span>
  return (
    <ul className={look.files}>
      {ids.map((id) => {
        const file = known[`${id}`]
        return <li key={`${id}`}>{file ? <FileLine file={file} /> : `${id}`}</li>
      })}
    </ul>
  )
}

export function FileInput({ field, name, value, onChange, instance }: InputProps) {
  return (
    <FilesInput
      name={name}
      label={labelOf(field)}
      hint={field.description || undefined}
      isRequired={field.required}
      value={Array.isArray(value) ? value : []}
      most={field.max_num_of_files ?? 1}
      known={instance && filesOf(instance)}
      onChange={(now) => onChange(now.length > 0 ? now : null)}
    />
  )
}
