"""What tests of programs built on Turnlog use: the contract that every store keeps."""

from .store_contract import StoreContract

__all__ = ["StoreContract"]
