// A name that must be there, and that nothing beside it has: until it is right, the content keeps the one before.

import { useEffect, useState } from 'react'
import { TextField } from '../../kit/fields.tsx'
import { MessagesContext } from '../../kit/messages.ts'
import { t } from '../../texts.ts'

export function NameField({
  name,
  label,
  value,
  isTaken,
  onChange,
}: {
  name: string
  label: string
  value: string
  isTaken: (text: string) => boolean
  onChange: (text: string) => void
}) {
  const [typed, setTyped] = useState(value)
  useEffect(() => setTyped((before) => (before.trim() === value ? before : value)), [value])
  const wrong = (text: string) =>
    text.trim() === '' ? t('required') : isTaken(text.trim()) ? t('interface.name.taken') : undefined
  const message = wrong(typed)
  return (
    <MessagesContext value={message === undefined ? {} : { [name]: message }}>
      <TextField
        name={name}
        label={label}
        isRequired
        value={typed}
        maxLength={100}
        onChange={(text) => {
          setTyped(text)
          if (!wrong(text)) onChange(text.trim())
        }}
      />
    </MessagesContext>
  )
}
