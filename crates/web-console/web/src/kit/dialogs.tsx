import { type ReactNode, useState } from 'react'
import { Heading, Dialog as KitDialog, Modal, ModalOverlay } from 'react-aria-components'
import { t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import { TextField } from './fields.tsx'
import { Layer } from './keys.ts'

/** A dialog over everything else; Escape closes it unless it must be answered. */
export function Dialog({
  title,
  isOpen,
  onClose,
  isWide = false,
  mustBeAnswered = false,
  children,
}: {
  title: string
  isOpen: boolean
  onClose: () => void
  isWide?: boolean
  mustBeAnswered?: boolean
  children: ReactNode
}) {
  return (
    <ModalOverlay
      className={css.overlay ?? ''}
      isOpen={isOpen}
      isDismissable={!mustBeAnswered}
      isKeyboardDismissDisabled={mustBeAnswered}
      onOpenChange={(open) => open || onClose()}
    >
      <Modal className={`${css.modal} ${isWide ? css.wide : ''}`}>
        <KitDialog className={css.dialog ?? ''} role={mustBeAnswered ? 'alertdialog' : 'dialog'}>
          <Layer>
            <Heading slot="title">{title}</Heading>
            {children}
          </Layer>
        </KitDialog>
      </Modal>
    </ModalOverlay>
  )
}

/** Asks before something that cannot be taken back; with a name, once that is typed. */
export function Confirmation({
  title,
  text,
  action,
  name,
  isOpen,
  isBusy = false,
  onConfirm,
  onClose,
  children,
}: {
  title: string
  text: string
  action: string
  name?: string | undefined
  isOpen: boolean
  isBusy?: boolean
  onConfirm: () => void
  onClose: () => void
  children?: ReactNode
}) {
  const [typed, setTyped] = useState('')
  const isSure = name === undefined || typed.trim() === name.trim()
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <p>{text}</p>
      {name !== undefined && (
        <TextField name="confirmation" label={t('type-name', { name })} isRequired value={typed} onChange={setTyped} />
      )}
      {children}
      <div className={css.actions}>
        <Button look="danger" onPress={onConfirm} isDisabled={isBusy || !isSure}>
          {action}
        </Button>
        <Button look="quiet" onPress={onClose} autoFocus>
          {t('cancel')}
        </Button>
      </div>
    </Dialog>
  )
}
