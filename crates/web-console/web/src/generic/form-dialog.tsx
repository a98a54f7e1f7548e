// A form in a dialog. A click beside it does not discard changes.

import { type ReactNode, useRef } from 'react'
import { Dialog } from '../kit/dialogs.tsx'
import { Form, type FormProps } from './form.tsx'

export function FormDialog({
  title,
  isWide = true,
  above,
  onDone,
  ...form
}: Omit<FormProps, 'onCancel' | 'closing'> & {
  title: string
  isWide?: boolean
  above?: ReactNode
  onDone: () => void
}) {
  const closing = useRef(onDone)
  return (
    <Dialog title={title} isOpen isWide={isWide} onClose={() => closing.current()}>
      {above}
      <Form {...form} closing={closing} onCancel={onDone} />
    </Dialog>
  )
}
