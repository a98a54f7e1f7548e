// A custom component in a form: one that asks for a field, and one that only shows something.

import { useState } from 'react'
import type { Field, Json, Placed } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import { Fieldset } from '../../kit/fields.tsx'
import { useHold, useMessages } from '../../kit/messages.ts'
import { part } from '../../kit/part.tsx'
import { labelOf } from '../../texts.ts'

const ComponentFrame = part(() => import('../../generic/component-frame.tsx').then((found) => found.ComponentFrame))

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
  const [errors, setErrors] = useState<string[]>([])
  useHold(name, errors.length > 0 ? errors.join(' ') : undefined)
  const message = useMessages(name)
  const plain = <FieldInput field={field} name={name} value={value} onChange={onChange} />
  return (
    <Fieldset name={name} label={labelOf(field)} hint={field.description || undefined} isRequired={field.required}>
      <ComponentFrame
        {...custom}
        value={value ?? null}
        onValue={(now) => onChange(now as Json)}
        onErrors={setErrors}
        hidesErrors={message !== undefined}
        fallback={plain}
      />
    </Fieldset>
  )
}

/** Nothing that it says is kept. */
export function ShownComponent({ custom, label }: { custom: Placed; label: string | undefined }) {
  return (
    <div className={generic.section}>
      {label && <h3>{label}</h3>}
      <ComponentFrame {...custom} />
    </div>
  )
}
