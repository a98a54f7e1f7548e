// A custom component in a form: the input of a field, or a part that only shows something.

import { createContext, useContext, useState } from 'react'
import type { Field, Fields, Json, Placed } from '../../api/shapes.ts'
import { valuesOf } from '../../generic/component-record.ts'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import { Fieldset } from '../../kit/fields.tsx'
import { useHold, useMessages } from '../../kit/messages.ts'
import { part } from '../../kit/part.tsx'
import { labelOf } from '../../texts.ts'

const ComponentFrame = part(() => import('../../generic/component-frame.tsx').then((module) => module.ComponentFrame))

/** The record beside a form, as a flat instance; without a record, its components get none. */
export const BesideRecord = createContext<{ id: number; record: Fields } | undefined>(undefined)

/** The input of a component in a form. */
function usePlacedInput({ fields = [], ...custom }: Placed) {
  const beside = useContext(BesideRecord)
  return { ...custom, record: beside?.id, fields: valuesOf(beside?.record ?? {}, fields) }
}

export function ComponentInput({
  field,
  custom,
  name,
  value,
  onChange,
}: {
  field: Field
  custom: Placed
  name: string
  value: Json | undefined
  onChange: (value: Json) => void
}) {
  const input = usePlacedInput(custom)
  const [errors, setErrors] = useState<string[]>([])
  useHold(name, errors.length > 0 ? errors.join(' ') : undefined)
  const message = useMessages(name)
  const plain = <FieldInput field={field} name={name} value={value} onChange={onChange} />
  return (
    <Fieldset name={name} label={labelOf(field)} hint={field.description || undefined} isRequired={field.required}>
      <ComponentFrame
        {...input}
        value={value ?? null}
        onValue={(now) => onChange(now as Json)}
        onErrors={setErrors}
        hidesErrors={message !== undefined}
        fallback={plain}
      />
    </Fieldset>
  )
}

/** Its messages are not stored. */
export function ShownComponent({ custom, label }: { custom: Placed; label: string | undefined }) {
  const componentInput = usePlacedInput(custom)
  return (
    <div className={generic.section}>
      {label && <h3>{label}</h3>}
      <ComponentFrame {...componentInput} />
    </div>
  )
}
