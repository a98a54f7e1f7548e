// A form in a dialog; what was typed is not thrown away by a click beside it.

import { type ReactNode, useState } from 'react'
import { Confirmation, Dialog } from '../kit/dialogs.tsx'
import { t } from '../texts.ts'
import { Form, type FormProps } from './form.tsx'

export function FormDialog({
  title,
  isWide = true,
  above,
  onDone,
  ...form
}: Omit<FormProps, 'onCancel'> & { title: string; isWide?: boolean; above?: ReactNode; onDone: () => void }) {
  const [isAsked, setIsAsked] = useState(false)
  const leave = () => (form.isChanged && !form.isBusy ? setIsAsked(true) : onDone())
  return (
    <Dialog title={title} isOpen isWide={isWide} onClose={leave}>
      {above}
      <Form {...form} isChanged={form.isChanged} onCancel={leave} />
      {isAsked && (
        <Confirmation
          title={t('leave.title')}
          text={t('leave.text')}
          action={t('leave.action')}
          isOpen
          onConfirm={onDone}
          onClose={() => setIsAsked(false)}
        />
      )}
    </Dialog>
  )
}
